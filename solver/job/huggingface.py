"""Read a Hugging Face ``config.json``."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from topology.faults import did_you_mean, faults, raise_all
from topology.source import read_text
from topology.source_json import load_json
from topology.units import shown

from .hf_config import Config
from .hf_families import FAMILIES
from .transformer import Transformer

# Wrappers around a language model: the text part is a model of its own.
_TEXT_PART = "text_config"


def read_config(path: str | Path) -> Transformer:
    """Read a ``config.json`` file.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    The shape.

    Raises
    ------
    InputError
        With file, line and key of each fault.
    UnsupportedError
        For a family or feature that this version does not know.
    """
    return parse_config(read_text(path), str(path))


def parse_config(text: str, path: str = "config.json") -> Transformer:
    """Read the text of a ``config.json``; see :func:`read_config`."""
    source = load_json(text, path)
    if not isinstance(source.data, dict):
        hint = 'A config starts with { and holds "model_type".'
        message = f"needs a JSON object, got {shown(source.data)}."
        raise_all([source.fault((), "SP114", message, hint)])
    config = Config(source, source.data)
    family = _family(config)
    raise_all(config.faults)
    fields = FAMILIES[family](config)
    if config.has("quantization_config"):
        message = "a quantized base is not supported yet: the weights are planned at 16 bits."
        config.unsupported("quantization_config", message, "Remove the key, or use the base model.")
    raise_all(config.faults)
    where = Path(path)
    name = where.parent.name if where.name == "config.json" and where.parent.name else where.stem
    try:
        # The last two parts only: a result must not depend on where the checkout lies.
        return Transformer(name=name or "config", source="/".join(where.parts[-2:]), **fields)
    except ValidationError as error:
        raise_all(faults(error, source, Transformer))
        raise


def _family(config: Config) -> str:
    """Return the known ``model_type``, or note why there is none."""
    known = f"Known: {', '.join(sorted(FAMILIES))}."
    family = config.data.get("model_type")
    if _TEXT_PART in config.data:
        message = f"a multimodal model ({shown(family)}) is not supported yet."
        hint = f'Save its "{_TEXT_PART}" as a file of its own to plan for the language model.'
        config.unsupported(_TEXT_PART, message, hint)
    elif family is None:
        config.refuse("model_type", "SP113", "is missing.", f'Write e.g. "llama". {known}')
    elif not isinstance(family, str):
        message = f"needs text, got {shown(family)}."
        config.refuse("model_type", "SP114", message, known)
    elif family not in FAMILIES:
        hint = f"{did_you_mean(family, FAMILIES)} {known}".strip()
        hint += " Or describe the shape inline, under model:."
        config.unsupported("model_type", f"{shown(family)} is not supported yet.", hint)
    return family if isinstance(family, str) else ""
