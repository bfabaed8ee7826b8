"""The optimization memory: lessons in a local vector store, found again by relevance."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelopt.candidate import Experience
from accelopt.errors import SchemaVersionError, StoreError
from accelopt.files import locked
from accelopt.index_files import scrub_index_files

if TYPE_CHECKING:
    from accelopt.embedder import Embedder

SCHEMA_VERSION = 1
LOCK_FILE = ".accelopt.lock"
_COLLECTION = "accelopt-experiences"
_ROUNDING = 9


def relevance_text(source: str, bottleneck: str = "") -> str:
    """What is embedded, for a lesson (of its slow kernel) and for a query alike."""
    return f"{source}\nbottleneck {bottleneck}" if bottleneck else source


class OptimizationMemory:
    """Lessons in a folder, shared by the runs of a user. Close it when done.

    Vectors always come from our embedder, so the store never loads or downloads a model of its own.
    One process writes at a time.

    Args:
        path: the folder; made when it does not exist.
        embedder: turns texts into vectors; must be the one the folder was made with.

    Raises:
        SchemaVersionError: a newer version of accelopt wrote it.
        StoreError: it was made with another embedder, or can't be opened.
    """

    def __init__(self, path: Path, embedder: Embedder) -> None:
        # Importing it takes seconds, and most commands need no memory.
        import chromadb
        from chromadb.config import Settings

        self.path = path
        self._embedder = embedder
        self._lock = threading.Lock()
        self._client: Any
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"can't make the memory folder {path}: {error.strerror}") from error
        with self._writing():
            try:
                self._client = chromadb.PersistentClient(
                    path=str(path), settings=Settings(anonymized_telemetry=False)
                )
            except Exception as error:
                raise StoreError(
                    f"can't open the optimization memory {path}: {error}",
                    hint="move the folder away to start a new one",
                ) from error
            try:
                self._collection: Any = self._client.get_or_create_collection(
                    _COLLECTION,
                    metadata={
                        "schema_version": SCHEMA_VERSION,
                        "embedder": embedder.name,
                        "dimension": embedder.dimension,
                    },
                    configuration={"hnsw": {"space": "cosine"}},
                    embedding_function=None,
                )
                self._check_metadata()
            except BaseException:
                self.close()
                raise

    def _check_metadata(self) -> None:
        metadata = self._collection.metadata or {}
        found = self.schema_version
        if found > SCHEMA_VERSION:
            raise SchemaVersionError(str(self.path), found=found, supported=SCHEMA_VERSION)
        made_with = (metadata.get("embedder"), metadata.get("dimension"))
        if made_with != (self._embedder.name, self._embedder.dimension):
            raise StoreError(
                f"the optimization memory {self.path} was made with the embedder"
                f" {made_with[0]!r} ({made_with[1]} dimensions), not with"
                f" {self._embedder.name!r} ({self._embedder.dimension} dimensions)",
                hint="use that embedder, or name another memory folder",
            )

    @property
    def schema_version(self) -> int:
        """Version of the folder's format; 0 where it does not say."""
        return int((self._collection.metadata or {}).get("schema_version", 0))

    def __enter__(self) -> OptimizationMemory:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the store; safe to call twice."""
        self._client.close()
        scrub_index_files(self.path)

    def add(self, *experiences: Experience) -> None:
        """Keep lessons; one with the same id is replaced, so adding again changes nothing."""
        if not experiences:
            return
        texts = [relevance_text(lesson.slow_source, lesson.bottleneck) for lesson in experiences]
        embeddings = self._embedder.embed(texts)
        # One call for all: each one waits for the disk.
        with self._writing():
            self._collection.upsert(
                ids=[lesson.id for lesson in experiences],
                embeddings=embeddings,
                documents=[lesson.model_dump_json() for lesson in experiences],
                metadatas=[
                    {
                        "schema_version": SCHEMA_VERSION,
                        "device": lesson.device,
                        "dialect": lesson.dialect,
                        "task": lesson.task,
                    }
                    for lesson in experiences
                ],
            )

    def get(self, id_: str) -> Experience | None:
        """The lesson with that id; None if there is none."""
        with self._lock:
            found = self._collection.get(ids=[id_], include=["documents"])
        lessons = _experiences(found["documents"])
        return lessons[0] if lessons else None

    def retrieve(
        self,
        query_text: str,
        device: str,
        dialect: str,
        k: int,
        *,
        leave_out: Collection[str] = (),
    ) -> list[Experience]:
        """The `k` most relevant lessons for a device and a dialect, the most relevant first.

        Equal relevance goes by id, so the same store and query always give the same list.

        Args:
            query_text: what is looked for; see `relevance_text`.
            device: device name.
            dialect: dialect name.
            k: how many at most.
            leave_out: ids of lessons that are not wanted.
        """
        if k <= 0:
            return []
        import numpy as np

        query = np.asarray(self._embedder.embed([query_text])[0])
        with self._lock:
            # All lessons of the device and dialect are compared exactly: an approximate index would
            # make the answer depend on insertion order, and a memory holds thousands, not millions.
            # Their texts, two kernels each, are read for those only that are given back.
            found = self._collection.get(
                where={"$and": [{"device": device}, {"dialect": dialect}]}, include=["embeddings"]
            )
            if not found["ids"]:
                return []
            scores = np.asarray(found["embeddings"], dtype=np.float64) @ query
            ranked = sorted(
                zip(found["ids"], scores, strict=True),
                key=lambda item: (-round(float(item[1]), _ROUNDING), item[0]),
            )
            ids = [id_ for id_, _ in ranked if id_ not in leave_out][:k]
            documents = self._collection.get(ids=ids, include=["documents"]) if ids else None
        if documents is None:
            return []
        by_id = {lesson.id: lesson for lesson in _experiences(documents["documents"])}
        return [by_id[id_] for id_ in ids if id_ in by_id]

    def count(self) -> int:
        """How many lessons there are."""
        with self._lock:
            return int(self._collection.count())

    def all(self) -> list[Experience]:
        """Every lesson, in the order of their ids."""
        with self._lock:
            found = self._collection.get(include=["documents"])
        lessons = _experiences(found["documents"])
        return sorted(lessons, key=lambda lesson: lesson.id)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock, locked(self.path / LOCK_FILE, wait=True):
            try:
                yield
            finally:
                scrub_index_files(self.path)


def _experiences(documents: Sequence[str] | None) -> list[Experience]:
    return [Experience.model_validate_json(document) for document in documents or ()]
