"""Shows that a generated client has every operation, and that the shortest bodies are what the documentation says."""

import importlib
import json
import pathlib
import sys

description = json.load(open(sys.argv[1]))
operations = {
    operation["operationId"].replace(".", "_").lower()
    for path in description["paths"].values()
    for operation in path.values()
}
modules = [
    ".".join(file.with_suffix("").parts)
    for file in pathlib.Path("python/api").rglob("*.py")
    if file.stem != "__init__"
]
for module in modules:
    importlib.import_module(module)
made = {module.rsplit(".", 1)[1].replace("_", "") for module in modules}
missing = {name for name in operations if name.replace("_", "") not in made}
assert not missing, f"no operation was made of {missing}"

models = importlib.import_module("python.models")
for body, expected in [
    (
        models.AgentCreate(name="Ayu", system_prompt="You answer the phone."),
        {"name": "Ayu", "systemPrompt": "You answer the phone."},
    ),
    (
        models.WebhookCreate(
            url="https://example.com/hooks",
            events=[models.WebhookCreateEventsItem.CALL_ENDED],
            secret="at-least-8-characters",
        ),
        {
            "url": "https://example.com/hooks",
            "events": ["call.ended"],
            "secret": "at-least-8-characters",
        },
    ),
    (
        models.FunctionCreate(
            name="check_stock",
            description="Looks up what is there.",
            endpoint="https://example.com/stock",
        ),
        {
            "name": "check_stock",
            "description": "Looks up what is there.",
            "endpoint": "https://example.com/stock",
        },
    ),
    (models.AgentUpdate(), {}),
    (models.FunctionTest(), {}),
]:
    assert body.to_dict() == expected, (body.to_dict(), expected)
print(f"{len(made)} operations")
