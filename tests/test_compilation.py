import os

import pytest

from weft import compilation

OURS = "--xla_cpu_enable_concurrency_optimized_scheduler=false"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", OURS),
        ("--xla_dump_to=/tmp/x", f"--xla_dump_to=/tmp/x {OURS}"),
        ("--xla_cpu_enable_concurrency_optimized_scheduler=true",) * 2,
    ],
)
def test_operations_run_in_order_unless_the_user_wants_otherwise(monkeypatch, before, after):
    monkeypatch.setenv("XLA_FLAGS", before)
    monkeypatch.setattr(compilation, "version", lambda package: "0.10.2")
    compilation.prepare_jax()
    compilation.prepare_jax()
    assert os.environ["XLA_FLAGS"] == after


@pytest.mark.parametrize("version", ["0.6.2", "0.11.0", "1.0.0.dev20270101"])
def test_versions_that_were_not_tried_get_no_flag_that_might_end_them(monkeypatch, version):
    monkeypatch.setenv("XLA_FLAGS", "")
    monkeypatch.setattr(compilation, "version", lambda package: version)
    compilation.prepare_jax()
    assert os.environ["XLA_FLAGS"] == ""
