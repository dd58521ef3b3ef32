"""The examples of docs/client.md run as they stand there."""

import re
from pathlib import Path

from tests.cli.world import open_world

PAGE = Path(__file__).parents[2] / "docs" / "client.md"


def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) == 5
    with open_world(tmp_path) as world:
        names: dict[str, object] = {
            "base_url": world.base_url,
            "project_id": world.project.id,
            "public_key": world.public_key,
            "secret_key": world.secret,
        }
        for example in examples:
            exec(compile(example, str(PAGE), "exec"), names)  # noqa: S102 - the page is ours
        with world.client() as client:
            assert [service.name for service in client.list_services()] == ["shop"]
