"""Classes of Protobuf messages, as protoc generates them from .proto texts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

ITEM_PROTO = """
syntax = "proto3";
package shop;
message Item { string sku = 1; double p = 2; }
"""
PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "shop/item.proto";
message Unrelated { string text = 1; }
message Shown {
  message Arm { string name = 1; }
  message Page { repeated Item items = 1; }
  enum Kind { click = 0; buy = 1; }
  message Click { string sku = 1; google.protobuf.DoubleValue eur = 2; Kind kind = 3; }
  string id = 1;
  int64 viewer = 2;
  google.protobuf.Timestamp at = 3;
  Arm arm = 4;
  Page page = 5;
  repeated Click clicked = 6;
  optional string country = 7;
}
"""


def compile_files(files: Mapping[str, str]) -> FileDescriptor:
    """The compiled last file; `files` maps names to .proto texts."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in files.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        protoc = import_module("grpc_tools.protoc")
        well_known = Path(str(protoc.__file__)).parent / "_proto"
        result = folder / "all.binpb"
        options = [f"-I{folder}", f"-I{well_known}", f"-o{result}", "--include_imports"]
        assert protoc.main(["protoc", *options, *files]) == 0
        compiled = FileDescriptorSet.FromString(result.read_bytes())
    pool = DescriptorPool()
    for descriptor in compiled.file:
        pool.Add(descriptor)
    return pool.FindFileByName(list(files)[-1])


def message_class(files: Mapping[str, str], name: str) -> type[Message]:
    """The class of a message of the last file."""
    return GetMessageClass(compile_files(files).message_types_by_name[name])


def decode(value: bytes) -> object:
    """The decoder of a format that only its producer knows: JSON, backwards."""
    return json.loads(value[::-1])


Shown = message_class({"shop/item.proto": ITEM_PROTO, "shown.proto": PROTO}, "Shown")
