"""Queues in the console: made, changed, deleted, and looked into."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.console.scene import Scene


def test_a_queue_is_made_changed_and_deleted(scene: Scene) -> None:
    scene.sign_in("#/queues")
    scene.press("Create a queue")
    scene.fill("Name", "made-here")
    scene.dialog.get_by_label("Order").select_option("group_fifo")
    scene.fill("Messages live for", "1h30m")
    scene.press("Create")
    scene.noted("Created made-here.")
    config = scene.ask("AdminService/DescribeQueue", {"name": "made-here"})["config"]
    assert (config["ordering_mode"], config["default_ttl_ms"]) == ("group_fifo", 5_400_000)

    scene.press("Settings of made-here")
    assert scene.dialog.get_by_label("Messages live for").input_value() == "1h30m"
    scene.fill("Deliveries before a message dies", "3")
    scene.press("Save")
    scene.noted("Saved")
    changed = scene.ask("AdminService/DescribeQueue", {"name": "made-here"})["config"]
    assert changed == {**config, "max_delivery_count": 3}

    scene.press("Delete made-here")
    expect(scene.dialog.get_by_role("button", name="Delete the queue")).to_be_disabled()
    scene.fill("Type made-here to confirm", "made-here")
    scene.press("Delete the queue")
    scene.noted("Deleted made-here.")
    expect(scene.row("made-here")).to_have_count(0)


def test_a_queue_is_never_made_over_another(scene: Scene) -> None:
    scene.queue("was-here", max_delivery_count=3)
    scene.enter("#/queues")
    scene.press("Create a queue")
    scene.fill("Name", "was-here")
    scene.press("Create")
    scene.see("A queue of this name exists. Change its settings instead.")
    config = scene.ask("AdminService/DescribeQueue", {"name": "was-here"})["config"]
    assert config["max_delivery_count"] == 3
