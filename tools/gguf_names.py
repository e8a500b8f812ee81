"""What the names in tokenizer.ggml.pre of a GGUF file stand for, as parts of the `tokenizers` package; src/tokenizer/gguf_names.def is Reprise's."""
from tokenizers import Regex, normalizers, pre_tokenizers

CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN35 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
          r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SEED_CODER = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
BAILING = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
EXAONE_MOE = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
BLOOM = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
DEEPSEEK_LETTERS = (
    r"\s?["  "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377"
    "\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5"
    "\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d"
    "\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4"
    "\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d"
    "\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4"
    "\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
    "\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
    "]+")
EASTERN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
DEEPSEEK_LLM = ["[\r\n]", DEEPSEEK_LETTERS, "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", r"\s+$", EASTERN]
DEEPSEEK_CODER = ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EASTERN]
DEEPSEEK_V3 = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
               "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
DEFAULT = [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"]


def splits(*patterns):
    return [pre_tokenizers.Split(Regex(p), "isolated", False) for p in patterns]


def byte_level(*before, regex=False):
    return pre_tokenizers.Sequence([*before, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)])


def cut(*patterns, digits=False):
    return byte_level(*splits(*patterns), *([pre_tokenizers.Digits(individual_digits=True)] if digits else []))


def gpt2(digits=False):
    return byte_level(*([pre_tokenizers.Digits(individual_digits=True)] if digits else []), regex=True)


def falcon():
    return pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
                                    pre_tokenizers.Digits(individual_digits=False), *splits("[0-9][0-9][0-9]")])


def named():
    """Names that mean the same, and a function that makes the pre-tokenizer."""
    return [
        (["gpt-2", "phi-2", "mpt", "olmo", "modern-bert", "roberta-bpe", "jais", "gigachat", "mellum", "exaone4", "trillion", "granite-docling"], gpt2),
        (["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"], lambda: gpt2(digits=True)),
        (["llama-bpe", "llama3", "llama-v3", "smaug-bpe", "pixtral", "falcon3", "falcon-h1", "lfm2", "midm-2.0", "dbrx", "chatglm-bpe", "glm4", "glm5"],
         lambda: cut(LLAMA3)),
        (["minicpm5"], lambda: cut(r"\p{N}{1,3}", LLAMA3.replace("{1,3}", "+"))),
        (["qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan", "grok-2", "solar-open"], lambda: cut(QWEN2)),
        (["qwen35"], lambda: cut(QWEN35)), (["seed-coder"], lambda: cut(SEED_CODER)), (["exaone-moe"], lambda: cut(EXAONE_MOE)),
        (["bailingmoe", "bailingmoe2", "llada-moe"], lambda: cut(BAILING)),
        (["gpt-4o", "llama4", "kanana2", "minimax-m2"], lambda: cut(GPT4O)), (["tekken"], lambda: cut(TEKKEN)),
        (["deepseek-llm"], lambda: cut(*DEEPSEEK_LLM, digits=True)), (["deepseek-coder"], lambda: cut(*DEEPSEEK_CODER, digits=True)),
        (["deepseek-v3", "hunyuan-dense", "joyai-llm"], lambda: cut(*DEEPSEEK_V3)),
        (["bloom", "poro-chat", "gpt3-finnish"], lambda: cut(BLOOM)), (["viking"], lambda: cut(BLOOM, digits=True)),
        (["default"], lambda: cut(*DEFAULT)),
    ]


# Of those above: they normalize.
NFC = ("mpt", "olmo", "modern-bert", "command-r", "qwen2", "qwen35", "deepseek-r1-qwen", "stablelm2", "megrez")


def parts(name):
    """The normalizer, or None, and the pre-tokenizer of a name."""
    made = falcon() if name == "falcon" else next(make() for names, make in named() if name in names)
    return normalizers.NFC() if name in NFC else None, made
