"""Prints, for each resource type of the given templates, the properties that CloudFormation cannot change
without a replacement, and the properties that identify a resource, from the schemas of cfn-lint."""

import json
import sys

from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER as schemas


def properties(schema, *keys):
    return sorted({path.split("/")[2] for key in keys for path in schema.get(key, [])})


types = {r["Type"] for path in sys.argv[1:] for r in json.load(open(path))["Resources"].values()}
lines = []
for name in sorted(types):
    schema = schemas.get_resource_schema("us-east-1", name).schema
    found = {
        "createOnly": properties(schema, "createOnlyProperties", "conditionalCreateOnlyProperties"),
        "identity": properties(schema, "primaryIdentifier"),
    }
    lines.append(f'"{name}": {json.dumps(found)}')
print("{\n" + ",\n".join(lines) + "\n}")
