"""The words of the embedded catalogue: families of products, what tells their members apart, and what everybody writes.

Everything is lower case but brands and the first words of sentences, so that an instruction and the texts that answer it share
their words letter by letter: a small model with a small vocabulary reads both.
"""

from __future__ import annotations

from dataclasses import dataclass

from bpo.sandboxes.webshop.records import option_value

Slots = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Family:
    """Products that one search is for.

    query       the search; nouns: what titles call such a product, in two ways with the same last word
    category    path below the department's; prices: least and most dollars
    adjectives  traits said before the noun; parts: said after "with"; uses: said after "for". Each is a tuple of slots, and a
                slot a tuple of alternatives, of which a product has one at most. A leading article is no part of the attribute.
    options     names of POOLS
    """

    query: str
    nouns: tuple[str, ...]
    category: str
    prices: tuple[int, int]
    adjectives: Slots
    parts: Slots
    uses: Slots
    options: tuple[str, ...]

    @property
    def slots(self) -> dict[str, Slots]:
        """The slots by the word that joins their traits to a noun."""
        return {"": self.adjectives, "with": self.parts, "for": self.uses}


@dataclass(frozen=True)
class Department:
    """A part of the shop: root of the category paths, made-up brands, features that say nothing."""

    root: str
    brands: tuple[str, ...]
    facts: tuple[str, ...]
    families: tuple[Family, ...]


@dataclass(frozen=True)
class WordPool:
    """Values of an option group, of which a product offers between `least` and `most`, in this order."""

    group: str
    values: tuple[str, ...]
    least: int
    most: int


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(", ")) if text else ()


def _families(table: str) -> tuple[Family, ...]:
    """Families of a table with five lines each; a slot's alternatives are separated by "/"."""
    lines, families = table.strip().splitlines(), []
    for start in range(0, len(lines), 5):
        query, nouns, category, prices = lines[start].strip().split("; ")
        least, most = map(int, prices.split("-"))
        *roles, options = (_words(line.partition(":")[2].strip()) for line in lines[start + 1 : start + 5])
        slots = (tuple(tuple(slot.split("/")) for slot in role) for role in roles)
        families.append(Family(query, tuple(nouns.split("/")), category, (least, most), *slots, options))
    return tuple(families)


def _pool(group: str, values: str, least: int, most: int) -> WordPool:
    return WordPool(group, tuple(option_value(value) for value in _words(values)), least, most)


_COLORS = "black, white, gray, navy, blue, red, green, pink, beige, brown, purple, yellow"
POOLS = {
    "colors": _pool("color", _COLORS, 2, 4),
    "two colors": _pool("color", "black, white, gray, red, blue, black/white, black/red, white/gold, blue/gray", 2, 4),
    "all colors": _pool("color", f"{_COLORS}, orange, gold, silver, dark green, light blue, rose gold", 8, 14),
    "clothes": _pool("size", "x-small, small, medium, large, x-large, xx-large", 3, 4),
    "shoes": _pool("size", "6, 7, 8, 9, 10, 11, 12", 3, 4),
    "socks": _pool("size", "4/6, 7/9, 10/12", 2, 3),
    "fit": _pool("fit type", "men, women, kids", 2, 2),
    "beds": _pool("size", "twin, full, queen, king, california king", 3, 5),
    "squares": _pool("size", '16" x 16", 18" x 18", 20" x 20", 24" x 24", 28" x 28"', 2, 4),
    "rugs": _pool("size", "2' x 3', 3' x 5', 4' x 6', 5' x 8', 8' x 10'", 3, 5),
    "panels": _pool("size", '42" x 63", 52" x 63", 52" x 84", 52" x 95"', 2, 4),
    "feet": _pool("size", "3 ft, 6 ft, 10 ft, 15 ft", 2, 3),
    "watches": _pool("size", "38/40 mm, 42/44 mm, 45/49 mm", 2, 3),
    "ounces": _pool("size", "4 oz, 8 oz, 12 oz, 16 oz, 32 oz", 2, 4),
    "bottles": _pool("size", "12 oz, 18 oz, 24 oz, 32 oz, 40 oz", 2, 4),
    "bags": _pool("size", "20 bags, 50 bags, 100 bags", 2, 3),
    "packs": _pool("item package quantity", "1, 2, 4, 6, 12", 2, 4),
    "models": _pool("style", "model 8, model 9, model 10, model 11, model 12, model 14", 3, 6),
    "switches": _pool("style", "blue switch, red switch, brown switch", 2, 3),
    "wood": _pool("material type", "oak, pine, bamboo, metal", 2, 3),
    "scents": _pool("scent", "lavender, vanilla, coconut, lemon, rose, mint, honey", 2, 5),
    "fruit": _pool("flavor name", "lemon, peach, cherry, mango, apple, mint", 2, 5),
    "sweets": _pool("flavor name", "vanilla, caramel, coconut, cherry, mocha, honey", 2, 5),
    "heat": _pool("style", "mild, medium, hot, extra hot", 2, 4),
}

_BEAUTY = _families(
    """
    shampoo; shampoo/cream shampoo; Hair Care › Shampoo; 6-90
        adjectives: sulfate free, cruelty free, plant based, paraben free, fragrance free, color safe
        parts: argan oil/coconut oil, tea tree, aloe vera, vitamin e
        uses: dry hair/oily hair/fine hair, hair growth, a sensitive scalp, daily care
        options: ounces, scents
    hair brushes; hair brush/paddle brush; Hair Care › Hair Brushes; 7-120
        adjectives: heat resistant, cruelty free, non slip, light weight, easy care, travel size
        parts: a wooden handle/a rubber handle, natural bristles/nylon bristles, a round head, a small mirror
        uses: dry hair/oily hair/fine hair, wet hair, hair styling, daily care
        options:
    face creams; face cream/night cream; Skin Care › Face Creams; 9-160
        adjectives: oil free, fragrance free, cruelty free, paraben free, fast absorbing, plant based
        parts: vitamin e/rose water, shea butter/cocoa butter, aloe vera, green tea
        uses: dry skin/oily skin/sensitive skin, fine lines, tired eyes, daily care
        options:
    body lotions; body lotion/hand lotion; Skin Care › Body Lotions; 6-100
        adjectives: fragrance free, cruelty free, fast absorbing, paraben free, long lasting, plant based
        parts: shea butter/cocoa butter, argan oil/coconut oil, vitamin e, aloe vera
        uses: dry skin/oily skin/sensitive skin, daily care, after sun care, cold weather
        options: scents, ounces
    lip balms; lip balm/tinted balm; Lip Care › Lip Balms; 5-90
        adjectives: long lasting, cruelty free, fragrance free, plant based, travel size, paraben free
        parts: shea butter/cocoa butter, vitamin e, natural beeswax, sun protection
        uses: dry lips, daily care, cold weather, sensitive skin
        options: fruit
    nail polish; nail polish/gel polish; Nail Care › Nail Polish; 5-90
        adjectives: quick drying, long lasting, chip resistant, cruelty free, fragrance free, plant based
        parts: a glossy finish/a matte finish, a wide brush, vitamin e, tea tree
        uses: nail art, salon use, daily care, a home manicure
        options: all colors
    makeup brushes; makeup brush set/powder brush set; Makeup › Makeup Brushes; 8-140
        adjectives: cruelty free, travel size, non slip, super soft, easy care, light weight
        parts: a storage case, a wooden handle/a rubber handle, natural bristles/nylon bristles, a small mirror
        uses: eye shadow, dry skin/oily skin/sensitive skin, salon use, daily care
        options:
    """
)

_ELECTRONICS = _families(
    """
    wireless headphones; wireless headphones/sport headphones; Audio › Headphones; 18-290
        adjectives: noise cancelling, water resistant, light weight, fast charging, fully foldable, sweat proof
        parts: deep bass, touch control, a carry case, a soft headband
        uses: long flights, gym workouts, video games, business travel
        options: two colors
    portable speakers; portable speaker/party speaker; Audio › Portable Speakers; 15-260
        adjectives: water resistant, dust proof, light weight, long lasting, fast charging, shock proof
        parts: deep bass, led lights, touch control, a carry strap
        uses: outdoor use, camping trips, bike rides, video games
        options:
    phone cases; phone case/flip case; Phones › Phone Cases; 6-110
        adjectives: shock proof, scratch resistant, water resistant, ultra thin, non slip, dust proof
        parts: a card holder, a kick stand, a carry strap, soft silicone/real leather
        uses: outdoor use, office use, camping trips, wireless charging
        options: models, two colors
    power banks; power bank/battery bank; Phones › Power Banks; 14-190
        adjectives: fast charging, light weight, high capacity, ultra thin, solar powered, shock proof
        parts: two usb ports/three usb ports, a led display, a flash light, a carry case
        uses: camping trips, business travel, outdoor use, long flights
        options:
    usb cables; usb cable/charging cable; Computers › Cables; 5-90
        adjectives: fast charging, high speed, heavy duty, tangle free, long lasting, ultra thin
        parts: a nylon cover/a rubber cover, metal plugs, led lights, a carry case
        uses: data transfer, the home office, business travel, office use
        options: feet, two colors, packs
    computer keyboards; computer keyboard/gaming keyboard; Computers › Keyboards; 15-260
        adjectives: low noise, light weight, dust proof, water resistant, long lasting, ultra thin
        parts: led lights, a number pad, a wrist rest, media keys
        uses: the home office, video games, office use, small desks
        options: switches
    watch bands; watch band/wrist band; Watches › Watch Bands; 6-140
        adjectives: quick release, water resistant, sweat proof, light weight, long lasting, scratch resistant
        parts: a steel buckle/a magnetic clasp, soft silicone/real leather, a rubber back, a carry case
        uses: office use, gym workouts, outdoor use, small wrists
        options: colors, watches
    """
)

_HOME = _families(
    """
    table lamps; table lamp/desk lamp; Lighting › Table Lamps; 14-240
        adjectives: energy saving, fully dimmable, space saving, hand made, eco friendly, easy care
        parts: a linen shade/a glass shade, solid wood, a usb port, touch control
        uses: the living room/the dining room/the guest room, the home office, small spaces, kids rooms
        options:
    throw pillows; throw pillow/sofa pillow; Bedding › Throw Pillows; 8-120
        adjectives: machine washable, super soft, stain resistant, hand made, eco friendly, easy care
        parts: organic cotton/bamboo fiber, a linen cover/a velvet cover, memory foam, a hidden zipper
        uses: the living room/the dining room/the guest room, outdoor use, the home office, kids rooms
        options: squares, colors
    bed sheets; bed sheet set/fitted sheet set; Bedding › Bed Sheets; 18-240
        adjectives: machine washable, wrinkle free, super soft, fade resistant, eco friendly, easy care
        parts: deep pockets, organic cotton/bamboo fiber, two pillow cases, a hidden zipper
        uses: hot sleepers, sensitive skin, the guest room, kids rooms
        options: beds, colors
    area rugs; area rug/floor rug; Floors › Area Rugs; 20-340
        adjectives: machine washable, non slip, stain resistant, hand made, eco friendly, super soft
        parts: a rubber back, long fringes, a low pile/a high pile, organic cotton/bamboo fiber
        uses: the living room/the dining room/the guest room, kids rooms, outdoor use, small spaces
        options: rugs
    window curtains; window curtains/long curtains; Windows › Curtains; 12-180
        adjectives: machine washable, light blocking, noise reducing, wrinkle free, energy saving, fade resistant
        parts: metal rings/a rod pocket, tie backs, organic cotton/bamboo fiber, soft velvet
        uses: the living room/the dining room/the guest room, kids rooms, the home office, small spaces
        options: panels, colors
    dining chairs; dining chair/kitchen chair; Furniture › Dining Chairs; 35-360
        adjectives: fully assembled, space saving, stain resistant, heavy duty, easy care, hand made
        parts: solid wood, metal legs, a padded seat, a high back
        uses: the living room/the dining room/the guest room, small spaces, the home office, outdoor use
        options:
    wall shelves; wall shelf/corner shelf; Furniture › Wall Shelves; 12-210
        adjectives: space saving, fully assembled, heavy duty, hand made, eco friendly, water resistant
        parts: solid wood, metal brackets, three tiers/two tiers, towel hooks
        uses: the living room/the dining room/the guest room, small spaces, the home office, kids rooms
        options: wood
    water bottles; water bottle/sport bottle; Kitchen › Water Bottles; 8-100
        adjectives: leak proof, bpa free, dishwasher safe, heavy duty, easy care, eco friendly
        parts: stainless steel, a wide mouth, a straw lid/a screw lid, a carry strap
        uses: gym workouts, camping trips, school days, outdoor use
        options: bottles, colors
    """
)

_FASHION = _families(
    """
    women's dresses; women's dress/wrap dress; Women › Dresses; 15-220
        adjectives: machine washable, short sleeve/long sleeve, loose fit/slim fit, light weight, wrinkle free, hand made
        parts: side pockets, a tie belt, a floral print/a striped print, organic cotton/stretch fabric
        uses: daily wear, summer parties, office wear, warm weather
        options: clothes, colors
    men's shirts; men's shirt/polo shirt; Men › Shirts; 12-170
        adjectives: machine washable, short sleeve/long sleeve, loose fit/slim fit, quick drying, wrinkle free, light weight
        parts: side pockets, a button collar, a floral print/a striped print, organic cotton/stretch fabric
        uses: daily wear, office wear, gym workouts, warm weather
        options: clothes, colors
    rain jackets; rain jacket/storm jacket; Outdoor › Rain Jackets; 22-280
        adjectives: wind proof, quick drying, light weight, machine washable, fully foldable, loose fit/slim fit
        parts: a removable hood, side pockets, reflective strips, stretch fabric
        uses: hiking trips, bike rides, daily wear, cold weather
        options: fit, clothes, two colors
    running shoes; running shoes/sport shoes; Shoes › Running Shoes; 25-260
        adjectives: non slip, light weight, quick drying, water resistant, wide fit, machine washable
        parts: a rubber sole, arch support, stretch fabric, reflective strips
        uses: hiking trips, gym workouts, long walks, warm weather
        options: shoes, two colors
    ankle boots; ankle boots/winter boots; Shoes › Ankle Boots; 28-300
        adjectives: water resistant, non slip, fleece lined, hand made, wide fit, light weight
        parts: a low heel/a high heel, a side zipper, real leather/faux leather, a rubber sole
        uses: cold weather, office wear, long walks, daily wear
        options: shoes, colors
    wool socks; wool socks/crew socks; Accessories › Socks; 6-80
        adjectives: machine washable, sweat proof, quick drying, extra warm, non slip, hand made
        parts: arch support, organic cotton/stretch fabric, a soft cuff, a floral print/a striped print
        uses: hiking trips, cold weather, daily wear, long walks
        options: socks, colors
    sun hats; sun hat/bucket hat; Accessories › Sun Hats; 10-140
        adjectives: quick drying, hand made, machine washable, light weight, fully foldable, water resistant
        parts: a wide brim, a chin strap, sun protection, organic cotton
        uses: warm weather, hiking trips, summer parties, bike rides
        options:
    travel backpacks; travel backpack/city backpack; Accessories › Backpacks; 20-260
        adjectives: water resistant, light weight, hand made, quick drying, fully foldable, heavy duty
        parts: a laptop sleeve, side pockets, reflective strips, real leather/faux leather
        uses: business travel, office wear, hiking trips, bike rides
        options:
    """
)

_GROCERY = _families(
    """
    green tea; green tea/leaf tea; Drinks › Tea; 5-90
        adjectives: caffeine free, certified organic, non gmo, fair trade, small batch, sugar free
        parts: natural ginger, mint leaves, dried fruit, orange peel
        uses: iced drinks, family dinners, a gift basket, quick breakfasts
        options: bags
    coffee beans; coffee beans/espresso beans; Drinks › Coffee; 8-110
        adjectives: certified organic, fair trade, low acid, dark roast/light roast, small batch, caffeine free
        parts: chocolate notes, natural oils, orange peel, a zip bag
        uses: iced drinks, cold brew, a gift basket, quick breakfasts
        options:
    chocolate bars; chocolate bar/cocoa bar; Snacks › Chocolate; 4-90
        adjectives: gluten free, sugar free, fair trade, non gmo, plant based, small batch
        parts: sea salt, roasted almonds/whole hazelnuts, orange peel, dried fruit
        uses: home baking, a gift basket, office snacks, hiking trips
        options:
    granola bars; granola bars/oat bars; Snacks › Granola Bars; 5-80
        adjectives: gluten free, high protein, certified organic, low sodium, plant based, non gmo
        parts: whole grains, chia seeds, dried fruit, natural honey
        uses: school lunches, quick breakfasts, hiking trips, office snacks
        options: sweets, packs
    trail mix; trail mix/nut mix; Snacks › Trail Mix; 5-90
        adjectives: low sodium, high protein, sugar free, non gmo, gluten free, certified organic
        parts: dried fruit, chia seeds, sea salt, roasted almonds/whole hazelnuts
        uses: hiking trips, office snacks, school lunches, home baking
        options:
    olive oil; olive oil/cooking oil; Pantry › Oils; 8-130
        adjectives: cold pressed, certified organic, extra virgin, non gmo, small batch, fair trade
        parts: a pour spout, a glass bottle, real garlic, orange peel
        uses: fresh salads, home baking, family dinners, a gift basket
        options:
    hot sauce; hot sauce/pepper sauce; Pantry › Sauces; 4-80
        adjectives: gluten free, low sodium, sugar free, small batch, plant based, non gmo
        parts: real garlic, sea salt, natural ginger, a glass bottle
        uses: taco nights, grilled meat, family dinners, a gift basket
        options: heat
    dry pasta; dry pasta/egg pasta; Pantry › Pasta; 4-80
        adjectives: gluten free, high protein, low sodium, certified organic, small batch, non gmo
        parts: whole grains, red lentils/green lentils, sea salt, real garlic
        uses: family dinners, fresh salads, quick breakfasts, school lunches
        options:
    """
)

DEPARTMENTS = (
    Department(
        "Beauty & Personal Care",
        _words("Nelva, Rimo, Talu, Bessi, Omira"),
        ("Keep away from direct sun", "Packed without plastic", "Tested by our own team"),
        _BEAUTY,
    ),
    Department(
        "Electronics",
        _words("Zentik, Korvo, Dapto, Ruxo, Plenk"),
        ("One year warranty", "Tested by our own team", "Packed without plastic"),
        _ELECTRONICS,
    ),
    Department(
        "Home & Kitchen",
        _words("Hobari, Wendo, Fulma, Dresk, Calmo"),
        ("Colors may differ from the photos", "One year warranty", "Packed without plastic"),
        _HOME,
    ),
    Department(
        "Clothing & Shoes",
        _words("Vesti, Junor, Pallo, Ketti, Darven"),
        ("Please check the size chart", "Colors may differ from the photos", "Free returns for one year"),
        _FASHION,
    ),
    Department(
        "Grocery & Gourmet Food",
        _words("Munli, Granvo, Taskel, Bilo, Yumba"),
        ("Keep in a cool and dry place", "Best before date on the pack", "Packed without plastic"),
        _GROCERY,
    ),
)

# Words of parts, uses and nouns that are no nouns themselves; every other word of theirs, and every brand, is one.
NOT_NOUNS = frozenset(
    _words(
        "after, charging, cold, cooking, daily, deep, dining, dried, dry, faux, fine, fitted, floral, fresh, gaming, "
        "glossy, green, grilled, hidden, high, hot, iced, light, long, low, magnetic, matte, memory, metal, natural, "
        "oily, organic, outdoor, padded, portable, quick, real, red, reflective, removable, roasted, round, running, "
        "screw, sensitive, small, soft, solid, stainless, striped, the, three, tinted, tired, two, warm, wet, whole, "
        "wide, wireless, wooden"
    )
)
