"""What a backend says of its session ends a run: in the result, the last lines and the JSON."""

from __future__ import annotations

import json

import pytest

from accelopt.cli.output import print_json
from accelopt.cli.run_output import result_data, show_result
from accelopt.config import RunConfig
from accelopt.embedders import HashedTokenEmbedder
from accelopt.graphs import RunServices
from accelopt.models import Ensemble, Role
from accelopt.plugins import installed
from accelopt.run_store import RunStore
from accelopt.testing import DummyBackend, ScriptedChatModel, dummy_kernel, dummy_task

FACTS = {"pre-screen": "on: 3 of 4\nwere spared", "best": "not for this line"}


class Telling(DummyBackend):
    """Has something to say, once it has judged."""

    def session_facts(self):
        return FACTS if self.evaluated else {}


def answer(request):
    if request.role == "executor":
        return f"```python\n{dummy_kernel(80)}```"
    return "**Title**\nWords."


@pytest.fixture
def ended(tmp_path):
    """A run, and the same one opened again after its end with a backend that judged nothing."""
    task = dummy_task()
    config = RunConfig.load(
        None, task=task.name, backend="dummy", memory="none", evaluation_cache="none",
        beam_width=1, num_plans=1, iterations=1,
    )  # fmt: skip
    with RunStore.create(tmp_path, config, task.name) as store:

        def run():
            models = dict.fromkeys(Role, Ensemble.of("scripted", ScriptedChatModel(answer=answer)))
            services = RunServices(
                config=config, task=task, backend=Telling(), chat_models=models,
                embedder=HashedTokenEmbedder(), store=store,
            )  # fmt: skip
            return installed().graph("optimize").run(services)

        yield [(result, task, store) for result in (run(), run())]


def test_the_facts_end_the_run_and_are_kept_with_it(ended, capsys):
    for result, task, store in ended:
        assert result.judged == FACTS
        data = result_data(result, task, "dummy", Telling.device, store)
        print_json(data)
        assert json.loads(capsys.readouterr().out)["judged"] == FACTS
        show_result(data, task, 1.0)
        parts = [line.partition("  ") for line in capsys.readouterr().out.splitlines()]
        lines = {label: words.strip() for label, _, words in parts}
        assert lines["pre-screen"] == "on: 3 of 4 were spared"
        # A figure of the run is not replaced by a backend's words.
        assert lines["best"] == "80.0 us"


def test_most_backends_have_nothing_to_say():
    assert DummyBackend().session_facts() == {}
