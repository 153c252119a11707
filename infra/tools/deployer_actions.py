"""Prints the IAM actions with which CloudFormation creates, reads, updates and deletes the resources of a template,
from the schemas of cfn-lint."""

import json
import sys

from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER as schemas

types = {r["Type"] for path in sys.argv[1:] for r in json.load(open(path))["Resources"].values()}
actions = set()
for name in sorted(types):
    if not name.startswith("Custom::"):
        handlers = schemas.get_resource_schema("us-east-1", name).schema["handlers"]
        actions.update(a for kind, h in handlers.items() if kind != "list" for a in h["permissions"])
print("\n".join(sorted(actions)))
