from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Frame(_message.Message):
    __slots__ = ("head", "part", "chunk", "end")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    head: Head
    part: Part
    chunk: bytes
    end: End
    def __init__(self, head: _Optional[_Union[Head, _Mapping]] = ..., part: _Optional[_Union[Part, _Mapping]] = ..., chunk: _Optional[bytes] = ..., end: _Optional[_Union[End, _Mapping]] = ...) -> None: ...

class Head(_message.Message):
    __slots__ = ("job_id", "kind", "error", "worker_id", "parts")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    kind: str
    error: str
    worker_id: str
    parts: int
    def __init__(self, job_id: _Optional[str] = ..., kind: _Optional[str] = ..., error: _Optional[str] = ..., worker_id: _Optional[str] = ..., parts: _Optional[int] = ...) -> None: ...

class Part(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class End(_message.Message):
    __slots__ = ("bytes", "crc32")
    BYTES_FIELD_NUMBER: _ClassVar[int]
    CRC32_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    crc32: int
    def __init__(self, bytes: _Optional[int] = ..., crc32: _Optional[int] = ...) -> None: ...

class Contents(_message.Message):
    __slots__ = ("records",)
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[Record]
    def __init__(self, records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ...) -> None: ...

class Record(_message.Message):
    __slots__ = ("name", "arrays", "metrics", "config")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARRAYS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    name: str
    arrays: ArrayRecord
    metrics: ValueRecord
    config: ValueRecord
    def __init__(self, name: _Optional[str] = ..., arrays: _Optional[_Union[ArrayRecord, _Mapping]] = ..., metrics: _Optional[_Union[ValueRecord, _Mapping]] = ..., config: _Optional[_Union[ValueRecord, _Mapping]] = ...) -> None: ...

class ArrayRecord(_message.Message):
    __slots__ = ("arrays",)
    ARRAYS_FIELD_NUMBER: _ClassVar[int]
    arrays: _containers.RepeatedCompositeFieldContainer[ArrayMeta]
    def __init__(self, arrays: _Optional[_Iterable[_Union[ArrayMeta, _Mapping]]] = ...) -> None: ...

class ArrayMeta(_message.Message):
    __slots__ = ("name", "dtype", "shape", "stype", "bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    STYPE_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    stype: str
    bytes: int
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., stype: _Optional[str] = ..., bytes: _Optional[int] = ...) -> None: ...

class ValueRecord(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[NamedValue]
    def __init__(self, values: _Optional[_Iterable[_Union[NamedValue, _Mapping]]] = ...) -> None: ...

class NamedValue(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: Value
    def __init__(self, name: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class Value(_message.Message):
    __slots__ = ("number", "integer", "large_integer", "flag", "text", "data", "items")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    LARGE_INTEGER_FIELD_NUMBER: _ClassVar[int]
    FLAG_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    number: float
    integer: int
    large_integer: int
    flag: bool
    text: str
    data: bytes
    items: ValueList
    def __init__(self, number: _Optional[float] = ..., integer: _Optional[int] = ..., large_integer: _Optional[int] = ..., flag: _Optional[bool] = ..., text: _Optional[str] = ..., data: _Optional[bytes] = ..., items: _Optional[_Union[ValueList, _Mapping]] = ...) -> None: ...

class ValueList(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, values: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class SubmitReply(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: str
    def __init__(self, state: _Optional[str] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("job_id", "timeout_s")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    timeout_s: float
    def __init__(self, job_id: _Optional[str] = ..., timeout_s: _Optional[float] = ...) -> None: ...

class NextJobRequest(_message.Message):
    __slots__ = ("worker_id", "wait_s", "nodes_online")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    NODES_ONLINE_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    wait_s: float
    nodes_online: int
    def __init__(self, worker_id: _Optional[str] = ..., wait_s: _Optional[float] = ..., nodes_online: _Optional[int] = ...) -> None: ...

class PushReply(_message.Message):
    __slots__ = ("accepted",)
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    def __init__(self, accepted: _Optional[bool] = ...) -> None: ...

class LoadStateRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReportRequest(_message.Message):
    __slots__ = ("progress_json",)
    PROGRESS_JSON_FIELD_NUMBER: _ClassVar[int]
    progress_json: str
    def __init__(self, progress_json: _Optional[str] = ...) -> None: ...

class ReportReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ChargeRequest(_message.Message):
    __slots__ = ("event_json", "request_id")
    EVENT_JSON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    event_json: str
    request_id: str
    def __init__(self, event_json: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ChargeReply(_message.Message):
    __slots__ = ("answer_json",)
    ANSWER_JSON_FIELD_NUMBER: _ClassVar[int]
    answer_json: str
    def __init__(self, answer_json: _Optional[str] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("region", "version", "flwr_version", "protocol", "jobs", "worker_id", "worker_age_s", "nodes_online", "progress_json", "progress_age_s", "run", "run_status")
    class JobsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REGION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FLWR_VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_AGE_S_FIELD_NUMBER: _ClassVar[int]
    NODES_ONLINE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_JSON_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_AGE_S_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    RUN_STATUS_FIELD_NUMBER: _ClassVar[int]
    region: str
    version: str
    flwr_version: str
    protocol: int
    jobs: _containers.ScalarMap[str, str]
    worker_id: str
    worker_age_s: float
    nodes_online: int
    progress_json: str
    progress_age_s: float
    run: str
    run_status: str
    def __init__(self, region: _Optional[str] = ..., version: _Optional[str] = ..., flwr_version: _Optional[str] = ..., protocol: _Optional[int] = ..., jobs: _Optional[_Mapping[str, str]] = ..., worker_id: _Optional[str] = ..., worker_age_s: _Optional[float] = ..., nodes_online: _Optional[int] = ..., progress_json: _Optional[str] = ..., progress_age_s: _Optional[float] = ..., run: _Optional[str] = ..., run_status: _Optional[str] = ...) -> None: ...
