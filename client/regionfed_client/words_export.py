"""The word vocabulary as a `tokenizers` file, so that transformers needs nothing of ours.

A byte-fallback BPE without merges does what `WordTokenizer` does: each word is marked at its
beginning; a marked word of the vocabulary is one token, any other one becomes the mark followed
by its bytes, and the mark alone is the id before a spelt word.
"""

from __future__ import annotations

from pathlib import Path

from regionfed.models.extras import require
from regionfed.models.tokens import WordTokenizer

MARK = "\N{LOWER ONE EIGHTH BLOCK}"
PAD, END = "<pad>", "</s>"


def save_word_tokenizer(tokenizer: WordTokenizer, folder: Path) -> None:
    """Write tokenizer.json and its configuration, with the same ids. Raises ModelError without
    transformers."""
    tokenizers = require("tokenizers", extra="text", needed_for="a tokenizer file")
    transformers = require("transformers", extra="text", needed_for="a tokenizer file")
    ids = {PAD: tokenizer.pad_id, END: tokenizer.eos_id}
    first_byte = max(tokenizer.pad_id, tokenizer.eos_id) + 1
    ids |= {f"<0x{byte:02X}>": first_byte + byte for byte in range(256)}
    ids[MARK] = first_byte + 256
    ids |= {MARK + word: first_byte + 257 + place for place, word in enumerate(tokenizer.words)}
    assert len(ids) == tokenizer.size, "two entries of the vocabulary look the same"
    inner = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab=ids, merges=[], byte_fallback=True, ignore_merges=True)
    )
    inner.normalizer = tokenizers.normalizers.Sequence(
        [
            tokenizers.normalizers.Replace(tokenizers.Regex(r"\s+"), " "),
            tokenizers.normalizers.Strip(),
        ]
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(
        replacement=MARK, prepend_scheme="always"
    )
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"$A {END}", pair=f"$A {END} $B {END}", special_tokens=[(END, tokenizer.eos_id)]
    )
    inner.decoder = tokenizers.decoders.Sequence(
        [
            tokenizers.decoders.ByteFallback(),
            tokenizers.decoders.Fuse(),
            tokenizers.decoders.Replace(MARK, " "),
            tokenizers.decoders.Strip(" ", 1, 0),
        ]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token=PAD, eos_token=END, clean_up_tokenization_spaces=False
    ).save_pretrained(folder)
