# What the checker accepts of the client in Python, and what it refuses.
# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
from sluice import Sluice, SluiceError

sluice = Sluice("http://127.0.0.1:8080")

created = sluice.create_subscription(
    {"pattern": "/orders/**", "endpoint": {"url": "https://erp.example/hook"}, "policy": {"ordering": "path"}}
)
state: str = created["state"]
if created["mode"] != "mirror":
    pattern: str = created["pattern"]
mirror = sluice.create_subscription({"mode": "mirror", "source": "default"})
if mirror["mode"] == "mirror":
    source: str = mirror["source"]
sluice.list_namespaces()

sluice.get_subscription()  # type: ignore[call-arg]  # an argument is missing
sluice.create_subscription({"pattern": "/orders/**", "endpoint": {"url": ""}, "paterns": []})  # type: ignore[typeddict-item]  # no such member
sluice.list_subscriptions(mode="pull")  # type: ignore[arg-type]  # no such value
created["nothing"]  # type: ignore[typeddict-item]  # a subscription has no such member

for frame_id, data in sluice.feed("default", pattern="/orders/**"):
    place: str = frame_id
    if "event" in data:
        event_id: str = data["event"]["id"]
try:
    sluice.healthz()
except SluiceError as problem:
    code: str = problem.code
