"""The laboratory: small decision processes in which one knows what decides, and every method on them (docs/lab.md)."""
