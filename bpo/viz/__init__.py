"""Pictures of trees and of results: reads, never computes."""
