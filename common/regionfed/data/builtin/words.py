"""The word lists of the generator; where they end, pronounceable made-up words follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

PRODUCTS: dict[str, tuple[str, ...]] = {
    "automotive": ("tire", "wiper", "dashcam", "jumper", "hubcap", "antifreeze"),
    "baby": ("stroller", "pacifier", "crib", "diaper", "bib", "playpen"),
    "beauty": ("lipstick", "shampoo", "serum", "mascara", "lotion", "perfume"),
    "books": ("novel", "cookbook", "atlas", "diary", "comic", "almanac"),
    "phones": ("charger", "earphones", "handset", "powerbank", "tripod", "cradle"),
    "computers": ("keyboard", "monitor", "router", "webcam", "printer", "harddrive"),
    "electronics": ("speaker", "television", "projector", "amplifier", "radio", "antenna"),
    "furniture": ("sofa", "bookshelf", "wardrobe", "armchair", "nightstand", "ottoman"),
    "garden": ("hose", "shovel", "planter", "mower", "trellis", "birdbath"),
    "grocery": ("coffee", "granola", "pasta", "honey", "vinegar", "biscuits"),
    "health": ("vitamin", "thermometer", "bandage", "inhaler", "crutches", "ointment"),
    "bedding": ("pillow", "mattress", "blanket", "curtain", "duvet", "quilt"),
    "jewelry": ("necklace", "earring", "bracelet", "brooch", "pendant", "anklet"),
    "kidswear": ("romper", "onesie", "bootie", "mitten", "pinafore", "dungarees"),
    "kitchen": ("blender", "kettle", "toaster", "skillet", "spatula", "colander"),
    "menswear": ("necktie", "blazer", "trousers", "cufflinks", "waistcoat", "chinos"),
    "office": ("stapler", "envelope", "notebook", "marker", "binder", "lectern"),
    "pets": ("leash", "aquarium", "kibble", "birdcage", "catnip", "kennel"),
    "shoes": ("sneaker", "sandal", "slipper", "loafer", "moccasin", "clog"),
    "sports": ("dumbbell", "racket", "kayak", "helmet", "snorkel", "trampoline"),
    "tools": ("hammer", "drill", "wrench", "chisel", "pliers", "sander"),
    "toys": ("puzzle", "teddy", "marbles", "kite", "dollhouse", "yoyo"),
    "games": ("joystick", "console", "gamepad", "headset", "cartridge", "arcade"),
    "womenswear": ("skirt", "blouse", "cardigan", "leggings", "gown", "camisole"),
}
"""Product words by category: 24 categories."""

CUES: dict[str, tuple[str, ...]] = {
    "buy": ("order", "purchase", "get"),
    "compare": ("versus", "compared", "alternatives"),
    "gift": ("present", "birthday", "wrapped"),
    "repair": ("fix", "broken", "parts"),
    "discount": ("cheap", "sale", "coupon"),
    "review": ("rating", "opinions", "tested"),
    "track": ("shipped", "delivery", "arriving"),
    "return": ("refund", "exchange", "unwanted"),
}
"""Words that give an intent away, the same in every region."""

AUDIENCES = ("men", "women", "kids", "toddler", "teen", "senior", "unisex", "newborn")
ATTRIBUTES = (
    "red", "blue", "green", "black", "white", "small", "large", "wooden", "leather", "cotton",
    "steel", "waterproof", "portable", "wireless", "foldable", "organic",
)  # fmt: skip
MODELS = ("mk2", "x100", "pro7", "v3", "gt5", "s20", "zx1", "t800", "q9", "m40", "k12", "r77")

AMBIGUOUS_CUES = (
    "deal", "match", "swap", "spare", "pick", "turn", "hold", "point",
    "check", "run", "cut", "draw", "lift", "ring", "trade", "care",
)  # fmt: skip
"""Words whose intent depends on the region."""

AMBIGUOUS_ENTITIES = (
    "pearl", "coral", "ranger", "scout", "junior", "prime", "jet", "slate", "olive", "ivory",
    "nova", "summit", "pilot", "robin", "fern", "comet", "baron", "ruby", "drake", "maple",
)  # fmt: skip
"""Words whose entity type depends on the region."""

USER_WORDS = (
    "usual", "thingy", "regular", "favourite", "gizmo", "staple", "routine", "classic",
)  # fmt: skip
"""Words that mean something to one client only."""

_ONSETS = [
    "b",
    "c",
    "d",
    "f",
    "g",
    "h",
    "j",
    "k",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "t",
    "v",
    "w",
    "z",
    "br",
    "cl",
    "dr",
    "fl",
    "gr",
    "pl",
    "st",
    "tr",
]
_VOWELS = ["a", "e", "i", "o", "u"]
_CODAS = ["l", "m", "n", "r", "s", "t", "x"]


def made_up(*, salt: int) -> Iterator[str]:
    """Pronounceable words in a fixed order, never twice the same; `salt` picks another order."""
    syllables = len(_ONSETS) * len(_VOWELS)
    total = syllables * syllables * len(_CODAS)
    step = 7919  # prime and no divisor of `total`, so the walk visits every word once
    for count in range(total):
        index = (salt * 104_729 + count * step) % total
        index, coda = divmod(index, len(_CODAS))
        first, second = divmod(index, syllables)
        yield _syllable(first) + _syllable(second) + _CODAS[coda]


def take(count: int, *, listed: Sequence[str], salt: int, used: set[str]) -> tuple[str, ...]:
    """`count` words that are not in `used` yet, listed ones first; they are added to `used`."""
    chosen: list[str] = []
    more = made_up(salt=salt)
    candidates = iter(listed)
    while len(chosen) < count:
        word = next(candidates, None) or next(more)
        if word not in used:
            used.add(word)
            chosen.append(word)
    return tuple(chosen)


def misspell(word: str, *, variant: int) -> str:
    """One misspelt form of a word: letters swapped, dropped, doubled or exchanged.

    `variant` counts through the forms; different variants may give the same form.
    """
    position = 1 + variant // 4 % max(len(word) - 2, 1)
    left, letter, right = word[:position], word[position], word[position + 1 :]
    kind = variant % 4
    if kind == 0 and right:
        return left + right[0] + letter + right[1:]
    if kind == 1:
        return left + right
    if kind == 2:
        return left + letter * 2 + right
    return left + ("e" if letter != "e" else "a") + right


def _syllable(index: int) -> str:
    onset, vowel = divmod(index, len(_VOWELS))
    return _ONSETS[onset] + _VOWELS[vowel]
