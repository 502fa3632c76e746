"""Small dumps in every format, written for these tests; no real machine prints them."""

from __future__ import annotations

from collections.abc import Callable

LEGEND = """
Legend:

  X    = Self
  SYS  = Path over the link between sockets
  NODE = Path over host bridges of one socket
  PIX  = Path over one switch
  NV#  = Path over # NVLinks
"""


def matrix(
    gpus: int,
    cell: Callable[[int, int], str],
    nics: int = 0,
    sockets: int = 2,
    separator: str = "\t",
) -> str:
    """A topology matrix: adapter n is next to GPU n, GPUs spread over the sockets."""
    per_socket = -(-gpus // sockets)
    names = [f"GPU{i}" for i in range(gpus)] + [f"NIC{i}" for i in range(nics)]
    lines = ["\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for i in range(gpus):
        cells = [" X " if i == j else cell(i, j) for j in range(gpus)]
        for j in range(nics):
            same = i // per_socket == j // per_socket
            cells.append("PIX" if i == j else "NODE" if same else "SYS")
        socket = i // per_socket
        affinity = f"{socket * 16}-{socket * 16 + 15}", f"{socket}", "", "N/A"
        lines.append(f"GPU{i}{separator}" + separator.join([*cells, *affinity]))
    return "\n".join(lines) + "\n" + LEGEND


def switched(links: int) -> Callable[[int, int], str]:
    return lambda i, j: f"NV{links}"


MATRIX = matrix(8, switched(18), nics=4)

BRIDGES = matrix(4, lambda i, j: "NV4" if i // 2 == j // 2 else "SYS")

ROCM = """
======================= ROCm System Management Interface =======================
=========================== Weight between two GPUs ============================
       GPU0         GPU1
GPU0   0            15
GPU1   15           0
========================== Link Type between two GPUs ==========================
       GPU0         GPU1
GPU0   0            XGMI
GPU1   XGMI         0
================================== Numa Nodes ==================================
GPU[0] : (Topology) Numa Node: 0
GPU[1] : (Topology) Numa Node: 1
"""

NCCL = """<system version="1">
 <cpu numaid="0" arch="x86_64">
  <pci busid="0000:01:00.0" class="0x060400" link_speed="32 GT/s" link_width="16">
   <pci busid="0000:02:00.0" class="0x030200" device="0x2330" link_speed="32 GT/s">
    <gpu dev="0" sm="90" rank="0" gdr="1">
     <nvlink target="0000:aa:00.0" count="18" tclass="0x068000"/>
    </gpu>
   </pci>
   <pci busid="0000:03:00.0" class="0x020000" link_speed="32 GT/s">
    <nic><net name="mlx5_0" dev="0" speed="400000" port="1"/></nic>
   </pci>
  </pci>
 </cpu>
 <cpu numaid="1" arch="x86_64">
  <pci busid="0000:81:00.0" class="0x060400" link_speed="32 GT/s" link_width="16">
   <pci busid="0000:82:00.0" class="0x030200" device="0x2330" link_speed="32 GT/s">
    <gpu dev="1" sm="90" rank="1" gdr="1">
     <nvlink target="0000:aa:00.0" count="18" tclass="0x068000"/>
    </gpu>
   </pci>
   <pci busid="0000:83:00.0" class="0x020000" link_speed="32 GT/s">
    <nic><net name="mlx5_1" dev="1" speed="400000" port="1"/></nic>
   </pci>
  </pci>
 </cpu>
</system>
"""

NCCL_WITHOUT_GPU = """<system version="1">
 <cpu numaid="2">
  <pci busid="0001:00:00.0" class="0x030200" link_speed="16 GT/s"/>
  <pci busid="0002:00:00.0" class="0x030200" link_speed="16 GT/s"/>
  <pci busid="0101:00:00.0" class="0x020700" link_speed="16 GT/s"/>
 </cpu>
</system>
"""

TREE = """# two leaves, one spine
SwitchName=leaf1 Nodes=gpu[01-04]
SwitchName=leaf2 Nodes=gpu[05-08]
SwitchName=spine Switches=leaf[1-2]
"""

BLOCKS = """BlockName=rack1 Nodes=tray[101-118]
BlockName=rack2 Nodes=tray[201-218]
BlockSizes=18,36
"""

TOPOLOGY_YAML = """- topology: fabric
  cluster_default: true
  tree:
    switches:
      - switch: spine
        children: leaf[1-2]
      - switch: leaf1
        nodes: gpu[01-04]
      - switch: leaf2
        nodes: gpu[05-08]
- topology: racks
  block:
    block_sizes: [2, 4]
    blocks:
      - block: rack1
        nodes: gpu[01-04]
"""

SINFO = """PARTITION AVAIL NODES STATE NODELIST GRES
train*       up     3  idle gpu[01-03] gpu:h100:8(S:0-1)
train*       up     1 drain gpu04 gpu:h100:8(S:0-1)
login        up     1  idle login1 (null)
$ echo done
"""

SCONTROL = """NodeName=gpu01 Arch=x86_64 CoresPerSocket=48
   Gres=gpu:h100:8(S:0-1)
   State=IDLE ThreadsPerCore=2
   CfgTRES=cpu=192,mem=2000G,gres/gpu=8
NodeName=gpu02 Arch=x86_64 CoresPerSocket=48
   Gres=gpu:h100:8(S:0-1)
   State=DOWN+DRAIN ThreadsPerCore=2
"""

IBNETDISCOVER = """# Topology file
Switch  4 "S-00000000000000a1"  # "leaf-a" base port 0 lid 1 lmc 0
[1]  "H-00000000000000b1"[1](b1)  # "gpu01 mlx5_0" lid 11 4xNDR
[2]  "H-00000000000000b2"[1](b2)  # "gpu02 mlx5_0" lid 12 4xNDR
[3]  "S-00000000000000c1"[1]  # "spine" lid 3 4xNDR

Switch  4 "S-00000000000000a2"  # "leaf-b" base port 0 lid 2 lmc 0
[1]  "H-00000000000000b3"[1](b3)  # "gpu03 mlx5_0" lid 13 4xNDR
[2]  "H-00000000000000b4"[1](b4)  # "gpu04 mlx5_0" lid 14 4xHDR
[3]  "S-00000000000000c1"[2]  # "spine" lid 3 4xNDR

Switch  4 "S-00000000000000c1"  # "spine" base port 0 lid 3 lmc 0
[1]  "S-00000000000000a1"[3]  # "leaf-a" lid 1 4xNDR
[2]  "S-00000000000000a2"[3]  # "leaf-b" lid 2 4xNDR

Ca  1 "H-00000000000000b1"  # "gpu01 mlx5_0"
[1](b1)  "S-00000000000000a1"[1]  # lid 11 lmc 0 "leaf-a" lid 1 4xNDR
Ca  1 "H-00000000000000b2"  # "gpu02 mlx5_0"
[1](b2)  "S-00000000000000a1"[2]  # lid 12 lmc 0 "leaf-a" lid 1 4xNDR
Ca  1 "H-00000000000000b3"  # "gpu03 mlx5_0"
[1](b3)  "S-00000000000000a2"[1]  # lid 13 lmc 0 "leaf-b" lid 2 4xNDR
Ca  1 "H-00000000000000b4"  # "gpu04 mlx5_0"
[1](b4)  "S-00000000000000a2"[2]  # lid 14 lmc 0 "leaf-b" lid 2 4xNDR
"""

LABELS = """apiVersion: v1
kind: NodeList
items:
- apiVersion: v1
  kind: Node
  metadata:
    labels:
      kubernetes.io/hostname: tray1
      nvidia.com/gpu.count: "4"
      nvidia.com/gpu.product: NVIDIA-GB200
      nvidia.com/gpu.clique: 0f1e.1
      fabric.topograph.run/tier-0: leaf1
- apiVersion: v1
  kind: Node
  metadata:
    labels:
      kubernetes.io/hostname: tray2
      nvidia.com/gpu.count: "4"
      nvidia.com/gpu.product: NVIDIA-GB200
      nvidia.com/gpu.clique: 0f1e.1
      fabric.topograph.run/tier-0: leaf1
"""

SHOW_LABELS = (
    "NAME STATUS ROLES AGE VERSION LABELS\n"
    "n1 Ready <none> 3d v1.30 "
    "a=b,nvidia.com/gpu.count=8,nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3\n"
    "n2 Ready <none> 3d v1.30 "
    "a=b,nvidia.com/gpu.count=8,nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3\n"
)

SKYPILOT = """name: train
num_nodes: 4
resources:
  accelerators: {H100: 8}
"""

TOPOGRAPH = """switches:
  core:
    switches: [leaf1, leaf2]
blocks:
- switch: leaf1
  nodes: ["t[1-2]"]
  annotations: {accelerator.topology.test/domain: nvl1}
- switch: leaf2
  nodes: ["t[3-4]"]
  annotations: {accelerator.topology.test/domain: nvl2}
"""

NODE_LINK = """{"directed": false, "nodes": [
 {"id": "g0", "kind": "gpu", "model": "H100"}, {"id": "g1", "kind": "gpu", "model": "H100"},
 {"id": "s0", "kind": "nvswitch"}, {"id": "h0", "kind": "host"}, {"id": "n0", "kind": "nic"},
 {"id": "l0", "kind": "leaf"}],
 "links": [{"source": "g0", "target": "s0", "bw_gbs": 450}, {"source": "g1", "target": "s0",
 "bw_gbs": 450}, {"source": "g0", "target": "h0"}, {"source": "g1", "target": "h0"},
 {"source": "h0", "target": "n0", "bw_gbs": 50}, {"source": "n0", "target": "l0", "bw_gbs": 50}]}
"""

GRAPHML = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
 <key id="k" for="node" attr.name="kind" attr.type="string"/>
 <key id="b" for="edge" attr.name="bandwidth_bytes_per_s" attr.type="double"/>
 <graph edgedefault="undirected">
  <node id="g0"><data key="k">gpu</data></node><node id="h0"><data key="k">host</data></node>
  <edge source="g0" target="h0"><data key="b">6.3e10</data></edge>
 </graph>
</graphml>
"""

SAMPLES: dict[str, tuple[str, str]] = {
    "matrix": ("nvidia-smi", MATRIX),
    "bridges": ("nvidia-smi", BRIDGES),
    "rocm": ("rocm-smi", ROCM),
    "nccl": ("nccl-xml", NCCL),
    "nccl without gpu": ("nccl-xml", NCCL_WITHOUT_GPU),
    "tree": ("slurm-conf", TREE),
    "blocks": ("slurm-conf", BLOCKS),
    "topology.yaml": ("slurm-yaml", TOPOLOGY_YAML),
    "sinfo": ("sinfo", SINFO),
    "scontrol": ("scontrol", SCONTROL),
    "ibnetdiscover": ("ibnetdiscover", IBNETDISCOVER),
    "labels": ("kubernetes", LABELS),
    "show-labels": ("kubernetes", SHOW_LABELS),
    "skypilot": ("skypilot", SKYPILOT),
    "topograph": ("topograph", TOPOGRAPH),
    "node-link": ("node-link", NODE_LINK),
    "graphml": ("graphml", GRAPHML),
}
