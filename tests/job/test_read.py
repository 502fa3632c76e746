from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from solver.job.read import example_path, parse_problem, read_problem
from solver.report.resolved import problem_data
from topology.errors import InputError, Problem, UnsupportedError

BASE = """\
schema: 1
model: llama3-8b
cluster: {nodes: 2, gpus_per_node: 8, gpu: h100-80gb-sxm, price: 2.50}
training:
  seq_len: 4096
  global_batch: 1024seq
  tokens: 100B
"""
ROOT = Path(__file__).parents[2]


def refused(
    text: str, overrides: Mapping[str, Any] | None = None, flags: Mapping[str, str] | None = None
) -> tuple[Problem, ...]:
    with pytest.raises(InputError) as caught:
        parse_problem(text, "problem.yaml", overrides, flags)
    return caught.value.problems


def only(text: str, overrides: Mapping[str, Any] | None = None) -> Problem:
    problems = refused(text, overrides)
    assert len(problems) == 1, [str(problem) for problem in problems]
    return problems[0]


@pytest.mark.parametrize("path", [example_path(), ROOT / "examples" / "70b-64xh100.yaml"])
def test_example(path: Path) -> None:
    problem = read_problem(path)
    assert problem.job.transformer.parameters().total == 70_553_706_496
    assert (problem.job.seq_len, problem.job.global_batch) == (4096, 1024)
    assert problem.job.tokens == 100_000_000_000
    assert problem.job.steps == 23_842
    assert problem.cluster.gpus == 64
    assert problem.cluster.group.price_usd_per_gpu_hour == 2.5
    assert problem.cluster.group.price_date
    assert problem.positions["training.seq_len"][0] > 1


def test_packaged_example_is_the_example() -> None:
    packaged, shown = example_path().parent, ROOT / "examples"
    for name in ("70b-64xh100.yaml", "llama3-70b/config.json"):
        assert (packaged / name).read_bytes() == (shown / name).read_bytes()


def test_everything_that_can_be_said() -> None:
    problem = parse_problem(
        BASE.replace("tokens: 100B", "tokens: 1.5T\n  grad_dtype: bf16\n  precision: fp8")
        + "  flash_attention: false\n  fused_loss: true\n  attention_span: null\n"
        + """
limits: {mem_headroom: 5%, max_bubble: 0.2, max_comm: "30%", comm_metric: total,
         tp_within_node: false, max_stages: 8, deadline: 30d, budget: "$2,000,000"}
search: {tp: [4, 1, 2], pp: 1..4, vpp: 2, cp: 1, ep: 1, zero: [0, 3], micro_batch: 1..2,
         recompute: [full, none], hsdp: false, gpus: 16, max_gpus: 16, offload: false}
objective: {minimise: cost, pareto: [time, cost, gpus], top: 3, tolerance: 3%}
framework: fsdp
cost_model: textbook
profile: h100
mfu: 45%
charge_recompute: true
"""
    )
    assert problem.job.recipe.state_bytes() == 2 + 2 + 4 + 8
    assert problem.job.attention == "unfused"
    assert problem.limits.model_dump() == {
        "mem_headroom": 0.05,
        "max_bubble": 0.2,
        "max_comm": 0.3,
        "comm_metric": "total",
        "tp_within_node": False,
        "max_stages": 8,
        "deadline_s": 30 * 86_400,
        "budget_usd": 2e6,
    }
    assert problem.search.tp == (1, 2, 4)
    assert problem.search.pp == (1, 2, 3, 4)
    assert problem.search.zero == (0, 3)
    assert problem.search.recompute == ("none", "full")
    assert (problem.objective.minimise, problem.objective.pareto) == ("cost", True)
    assert problem.account.mfu == 0.45
    assert problem.framework == "fsdp"


@pytest.mark.parametrize(
    ("written", "sequences"),
    [
        ("1024", 1024),
        ("1024seq", 1024),
        ("'1,024 seqs'", 1024),
        ("4194304tok", 1024),
        ("4Mitok", 1024),
        ("16.777216Mtok", 4096),
    ],
)
def test_batches(written: str, sequences: int) -> None:
    problem = parse_problem(BASE.replace("1024seq", written))
    assert problem.job.global_batch == sequences


FAULTS = [
    # replaced, by, line, code, message
    ("model: llama3-8b", "modle: llama3-8b", 2, "SP101", "Did you mean 'model'"),
    ("model: llama3-8b", "model: llama3-70", 2, "SP102", "Did you mean 'llama3-70b'"),
    ("model: llama3-8b", "model: 7", 2, "SP102", "needs an id"),
    ("model: llama3-8b", "model: no/config.json", 2, "SP102", "no such file"),
    ("model: llama3-8b", 'model: "a\\0.json"', 2, "SP102", "no such file"),
    ("model: llama3-8b", "model: {layers: 2}", 2, "SP113", "hidden: is missing"),
    ("nodes: 2", "gpus: 60", 3, "SP103", "60 does not fill"),
    ("gpu: h100-80gb-sxm", "gpu: h100-80gb-smx", 3, "SP114", "h100-80gb-sxm"),
    ("nodes: 2", "nodes: 2, usable_memory: 80", 3, "SP106", "has no unit"),
    ("nodes: 2", "nodes: true", 3, "SP114", "not a whole number"),
    ("seq_len: 4096", "seq_len: '4096'", 5, "SP114", "needs a whole number, got the text '4096'"),
    ("seq_len: 4096", "seq_len: true", 5, "SP114", "the truth value True"),
    ("seq_len: 4096", "seq_len: .nan", 5, "SP114", "needs a whole number"),
    ("seq_len: 4096", "seq_len: 0", 5, "SP109", "at least 1"),
    ("seq_len: 4096", "seq_len: 1000000000", 5, "SP109", "at most 100,000,000"),
    ("seq_len: 4096", "seq_len: null", 5, "SP114", "needs a whole number"),
    ("1024seq", "4M", 6, "SP105", "'4Mtok' (4,000,000 tokens), '4Mitok' (4,194,304)"),
    ("1024seq", "4.000001K", 6, "SP105", "ambiguous"),
    ("1024seq", "4Mtok", 6, "SP104", "Nearest: 3997696tok (976seq) or 4001792tok (977seq)"),
    ("1024seq", "4194304", 6, "SP109", "Did you mean 4194304tok"),
    ("1024seq", "4furlongs", 6, "SP105", "unknown unit"),
    ("1024seq", "many", 6, "SP105", "not understood"),
    ("1024seq", "1.5seq", 6, "SP105", "not a whole number"),
    ("1024seq", "0.3tok", 6, "SP105", "whole number"),
    ("1024seq", "[1]", 6, "SP114", "needs a whole number of sequences"),
    ("1024seq", "-5", 6, "SP109", "at least 1"),
    ("tokens: 100B", "tokens: -1", 7, "SP109", "negative"),
    ("tokens: 100B", "tokens: 1e20", 7, "SP109", "at most"),
    ("tokens: 100B", "tokens: .inf", 7, "SP109", "not a finite number"),
    ("tokens: 100B", "optimizer: adam", 7, "SP112", "Did you mean 'adamw'"),
    ("tokens: 100B", "lora: {rank: 8}", 7, "SP101", "Write finetune: {lora_rank: 16}"),
    ("schema: 1", "finetune: {lora_rank: 0}", 1, "SP109", "at least 1"),
    ("schema: 1", "finetune: {lora_rank: 8, lora_targets: qvk}", 1, "SP112", "Did you mean 'qkv'"),
    ("schema: 1", "finetune: {base_bits: 4}", 1, "SP121", "it needs adapters"),
    ("schema: 1", "finetune: {lora_rank: 8, base_bits: 5}", 1, "SP112", "Choose 16, 8, 4"),
    ("schema: 1", "finetune: {lora_rank: 8, frozen: head}", 1, "SP121", "frozen already"),
    ("schema: 1", "finetune: {frozen_layers: 33}", 1, "SP109", "exceeds the 32 layers"),
    ("schema: 1", "finetune: {lora_rank: 8, frozen_layers: 32}", 1, "SP121", "nothing is left"),
    ("schema: 1", "finetune: {rank: 8}", 1, "SP101", "Did you mean 'lora_rank'"),
    ("schema: 1", "finetune: [1]", 1, "SP114", "needs a mapping"),
    ("tokens: 100B", "batch_rampup: 16", 7, "SP115", "not supported yet"),
    ("tokens: 100B", "attention_span: 0.5", 7, "SP109", "at least 1"),
    ("tokens: 100B", "attention_span: true", 7, "SP114", ""),
    ("tokens: 100B", "attention_span: 4097", 7, "SP109", "of a whole causal sequence"),
    ("tokens: 100B", "packed_documents: true", 7, "SP114", ""),
    ("tokens: 100B", "packed_documents: 100000", 7, "SP109", "exceed the sequence"),
    ("tokens: 100B", "attention_span: 9\n  packed_documents: 9", 8, "SP121", "Keep one"),
    ("schema: 1", "shema: 1", 1, "SP101", "Did you mean 'schema'"),
    ("schema: 1", "schema: 2", 1, "SP117", "not a known version"),
    ("schema: 1", "sweep: [1]", 1, "SP114", "mapping"),
    ("schema: 1", "limits: {max_bubble: 15}", 1, "SP109", "Did you mean 0.15"),
    ("schema: 1", "limits: {mem_headroom: 100%}", 1, "SP109", "below 1"),
    ("schema: 1", "limits: {max_comm: .nan}", 1, "SP109", "not a finite number"),
    ("schema: 1", "limits: {deadline: 30}", 1, "SP106", "30 has no unit"),
    ("schema: 1", "limits: {budget: .nan}", 1, "SP109", "nan"),
    ("schema: 1", "limits: {budget: true}", 1, "SP114", "amount of dollars"),
    ("schema: 1", "limits: [1]", 1, "SP114", "needs a mapping"),
    ("schema: 1", "search: {tp: 16}", 1, "SP107", "larger than one node (8 GPUs)"),
    ("schema: 1", "search: {tp: 6}", 1, "SP108", "Possible: 1, 2, 4, 8"),
    ("schema: 1", "search: {tp: 8..1}", 1, "SP109", "must ascend"),
    ("schema: 1", "search: {tp: 1..99999999}", 1, "SP109", "at most 10,000"),
    ("schema: 1", "search: {tp: two}", 1, "SP114", "not a number, list or range"),
    ("schema: 1", "search: {tp: []}", 1, "SP109", "0 values"),
    ("schema: 1", "search: {tp: [0]}", 1, "SP109", "at least 1"),
    ("schema: 1", "search: {tp: [x]}", 1, "SP114", "needs whole numbers"),
    ("schema: 1", "search: {tp: 2000000}", 1, "SP109", "out of range"),
    ("schema: 1", "search: {zero: 4}", 1, "SP109", "ZeRO stage 4"),
    ("schema: 1", "search: {pp: 33}", 1, "SP108", "exceed the 32 layers"),
    ("schema: 1", "search: {ep: 2}", 1, "SP110", "dense"),
    ("schema: 1", "search: {gpus: 12}", 1, "SP103", "Use 8 or 16"),
    ("schema: 1", "search: {gpus: 3}", 1, "SP103", "a divisor of 8"),
    ("schema: 1", "search: {gpus: 24}", 1, "SP103", "exceeds the 16 GPUs"),
    ("schema: 1", "search: {recompute: some}", 1, "SP112", "Choose none, selective, full"),
    ("schema: 1", "search: {recompute: []}", 1, "SP114", "is empty"),
    ("schema: 1", "search: {hsdp: yes}", 1, "SP114", "true or false"),
    ("schema: 1", "objective: price", 1, "SP112", "Did you mean 'cost'"),
    ("schema: 1", "objective: {pareto: [tme]}", 1, "SP112", "Did you mean 'time'"),
    ("schema: 1", "mfu: 40", 1, "SP109", "Did you mean 0.4"),
    ("schema: 1", "mfu: 0", 1, "SP109", "above 0"),
    ("schema: 1", "framework: megatrom", 1, "SP112", "Did you mean 'megatron'"),
    ("price: 2.50", "price: .nan", 3, "SP114", "nan"),
    ("price: 2.50", "price: -1", 3, "SP114", "negative"),
    (", price: 2.50}", "}\nobjective: cost", 4, "SP112", "cost needs a price"),
    (", price: 2.50}", "}\nlimits: {budget: 1}", 4, "SP112", "a budget needs a price"),
    ("tokens: 100B", "\nlimits: {deadline: 1d}", 8, "SP113", "needs the tokens"),
]


@pytest.mark.parametrize(("old", "new", "line", "code", "match"), FAULTS)
def test_faults(old: str, new: str, line: int, code: str, match: str) -> None:
    problems = refused(BASE.replace(old, new))
    texts = [str(problem) for problem in problems]
    assert any(p.code == code and p.line == line and match in str(p) for p in problems), texts


def test_a_feature_of_a_later_version_is_unsupported_and_a_mix_is_not() -> None:
    with pytest.raises(UnsupportedError):
        parse_problem(BASE + "  batch_rampup: 16\n")
    with pytest.raises(InputError) as caught:
        parse_problem(BASE + "  batch_rampup: 16\n  modle: 1\n")
    assert not isinstance(caught.value, UnsupportedError)


def test_packed_documents_shorten_attention_and_its_flops() -> None:
    whole, spanned, packed = (
        parse_problem(BASE + line).job
        for line in ("", "  attention_span: 256\n", "  packed_documents: 512\n")
    )
    assert spanned == packed
    assert whole.attention_span is None
    layers, width = whole.transformer.layers, whole.transformer.query_width
    left = whole.seq_len / 2 - 256
    # Scores and weighted values, 2 FLOP each a key and channel, three passes.
    saved = 3 * layers * 2 * 2 * width * left * whole.step_tokens
    assert whole.step_flops - packed.step_flops == pytest.approx(saved)


def test_the_span_of_packed_documents_comes_back() -> None:
    problem = parse_problem(BASE + "  packed_documents: 1000\n")
    data = problem_data(problem)
    assert data["training"]["attention_span"] == 500.0
    assert parse_problem(json.dumps(data)).job == problem.job


def test_experts_must_divide() -> None:
    mixture = BASE.replace("llama3-8b", "mixtral-8x7b") + "search: {ep: [3, 5]}\n"
    assert "3, 5 must divide the 8 experts. Possible: 1, 2, 4, 8." in str(only(mixture))


def test_an_empty_file_names_what_is_needed() -> None:
    problems = refused("")
    assert {problem.field for problem in problems} == {"model", "cluster", "training"}
    assert all("Write e.g." in problem.hint for problem in problems)
    assert only("- 1").code == "SP114"


def test_all_faults_in_the_order_of_the_file_and_at_most_twenty() -> None:
    text = (
        BASE.replace("4096", "0").replace("100B", "-1") + "bad: 1\n" + "limits: {max_bubble: 2}\n"
    )
    problems = refused(text)
    assert [problem.line for problem in problems] == [5, 7, 8, 9]
    many = BASE + "".join(f"x{n}: 1\n" for n in range(30))
    assert len(refused(many)) == 20


def test_flags_replace_the_file_and_are_named() -> None:
    problem = parse_problem(
        BASE, "p.yaml", {"training": {"seq_len": 8192}, "cluster": {"price": 3.0}}
    )
    assert problem.job.seq_len == 8192
    assert problem.cluster.group.price_usd_per_gpu_hour == 3.0
    fault = refused(BASE, {"training": {"seq_len": "x"}}, {"training.seq_len": "--seq-len"})[0]
    assert (fault.path, fault.line) == ("--seq-len", 0)
    assert only(BASE, {"model": "llama3-70"}).path == "--model"
    assert only(BASE, {"limits": {"max_bubble": 15}}).path == "--max-bubble"


def test_flags_change_a_shorthand_cluster() -> None:
    short = (
        "model: llama3-8b\ncluster: 8x8xH100\nobjective: cost\n" + BASE[BASE.index("training") :]
    )
    problem = parse_problem(short, "p.yaml", {"cluster": {"price": "2.50 $/gpu-h"}})
    assert problem.cluster.gpus == 64
    assert problem.cluster.group.price_usd_per_gpu_hour == 2.5
    assert parse_problem(short, "p.yaml", {"cluster": "1x8xH100", "objective": "time"})
    broken = short.replace("8x8xH100", "8by8")
    assert "not understood" in str(refused(broken, {"cluster": {"price": 2.5}})[0])
    assert parse_problem(short, "p", {"objective": {"minimise": "time"}}).objective.top == 5


def test_flags_alone() -> None:
    problem = parse_problem(
        "",
        overrides={
            "model": "seed-70b",
            "cluster": "8x8xH100",
            "training": {"seq_len": 4096, "global_batch": "1024seq"},
        },
    )
    assert problem.job.transformer.stated_parameters == 70_000_000_000


def test_inline_model() -> None:
    shape = "{layers: 80, hidden: 8192, heads: 64, kv_heads: 8, ffn: 28672, vocab: 128256}"
    problem = parse_problem(BASE.replace("llama3-8b", shape))
    assert problem.job.transformer.parameters().total == 70_553_706_496
    bad = BASE.replace("llama3-8b", shape.replace("kv_heads: 8", "kv_heads: 7"))
    assert "kv_heads 7 must divide heads 64" in str(only(bad))
    mixed = BASE.replace("llama3-8b", shape[:-1] + ", moe: {experts: 4, top_k: 8, ffn: 8}}")
    assert "top_k 8 exceeds experts 4" in str(only(mixed))
    assert "Known keys" in str(only(BASE.replace("llama3-8b", shape[:-1] + ", hiden: 3}")))


@pytest.mark.parametrize(
    ("text", "line", "match"),
    [
        ("a: [1", 1, "not valid YAML"),
        ("a: b: c", 1, "    a: b: c\n"),
        ("a: 1\na: 2", 2, "given twice, first in line 1"),
        ("a: &x 1\nb: *x", 1, "anchors and aliases"),
        ("a: !!python/object:os.system x", 1, "tags are not read"),
        ("a: 1\n---\nb: 2", 2, "more than one document"),
        ("[1, 2]: 3", 1, "a key must be plain text"),
        ("a: " + "[" * 60 + "]" * 60, 1, "nested more than 32"),
        ("a: " + "9" * 5000, 1, "too large"),
        ("a: \x00", 0, "not valid YAML"),
        ("a: \ud800", 0, "not valid YAML"),
        ("\t- x: [", 1, "not valid YAML"),
    ],
)
def test_broken_yaml(text: str, line: int, match: str) -> None:
    problem = only(text)
    assert problem.code == "SP100"
    assert problem.line in {line, line + 1}
    assert match in str(problem)
