"""The formats, in the order in which a text is tried: a format is one file and one entry here."""

from __future__ import annotations

from . import (
    graphs,
    ibnetdiscover,
    kubernetes,
    nccl_xml,
    nvidia_smi,
    rocm_smi,
    skypilot,
    slurm_conf,
    slurm_nodes,
    slurm_yaml,
    topograph,
)
from .imported import Importer
from .text import MAX_BYTES

IMPORTERS: tuple[Importer, ...] = (
    Importer(
        graphs.GRAPHML,
        graphs.GRAPHML_COMMAND,
        graphs.graphml_matches,
        graphs.read_graphml,
        MAX_BYTES,
    ),
    Importer(nccl_xml.NAME, nccl_xml.COMMAND, nccl_xml.matches, nccl_xml.read),
    Importer(
        graphs.JSON, graphs.JSON_COMMAND, graphs.json_matches, graphs.read_json, MAX_BYTES // 2
    ),
    Importer(rocm_smi.NAME, rocm_smi.COMMAND, rocm_smi.matches, rocm_smi.read),
    Importer(nvidia_smi.NAME, nvidia_smi.COMMAND, nvidia_smi.matches, nvidia_smi.read),
    Importer(
        ibnetdiscover.NAME,
        ibnetdiscover.COMMAND,
        ibnetdiscover.matches,
        ibnetdiscover.read,
        MAX_BYTES,
    ),
    Importer(slurm_conf.NAME, slurm_conf.COMMAND, slurm_conf.matches, slurm_conf.read),
    Importer(
        slurm_nodes.SCONTROL,
        slurm_nodes.SCONTROL_COMMAND,
        slurm_nodes.scontrol_matches,
        slurm_nodes.read_scontrol,
    ),
    Importer(
        slurm_nodes.SINFO,
        slurm_nodes.SINFO_COMMAND,
        slurm_nodes.sinfo_matches,
        slurm_nodes.read_sinfo,
    ),
    Importer(slurm_yaml.NAME, slurm_yaml.COMMAND, slurm_yaml.matches, slurm_yaml.read),
    Importer(topograph.NAME, topograph.COMMAND, topograph.matches, topograph.read),
    Importer(kubernetes.NAME, kubernetes.COMMAND, kubernetes.matches, kubernetes.read),
    Importer(skypilot.NAME, skypilot.COMMAND, skypilot.matches, skypilot.read),
)
FORMATS: tuple[str, ...] = tuple(importer.name for importer in IMPORTERS)
