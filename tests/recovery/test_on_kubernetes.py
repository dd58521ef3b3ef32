"""`ramet recover` with the backend for Kubernetes."""

import json
from pathlib import Path

from harness.instance import open_instance
from ramet.archive.object_store import open_bucket
from tests.recovery.archives import archive_base, publish
from tests.worlds import World


def test_a_recovery_is_refused_before_anything_is_written(world: World, tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    bucket = open_bucket(f"file://{tmp_path}/archive")
    archive_base(bucket, world.create("shop").id, tmp_path)
    publish(world, bucket, tmp_path)
    before = sorted(one.key for one in bucket.objects(""))
    with open_instance(RAMET_BACKEND="kubernetes", KUBECONFIG="/none") as ramet:
        options = ("--data", str(ramet.data), "--from", bucket.url)
        listed = ramet.run("recover", *options, "-o", "json")
        assert [one["name"] for one in json.loads(listed.stdout)["services"]] == ["shop"]
        ended = ramet.run("recover", *options, "--all", "--take-over", "--without-key")
        assert ended.returncode != 0
        assert "cannot bring services back under their own ids" in ended.stderr
        assert list(ramet.data.glob("recovery.json")) == []
    assert sorted(one.key for one in bucket.objects("")) == before
