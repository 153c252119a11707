// Each line of standard input has IAM policies and test cases. Writes a line with one result for each case.
// The simulator's licence is AGPL-3.0; only tests use it, and no release contains it.
import { createInterface } from 'node:readline'
import { runSimulation } from '@cloud-copilot/iam-simulate'

for await (const line of createInterface({ input: process.stdin })) {
  const { role, endpoints, cases } = JSON.parse(line)
  const results = []
  for (const { action, resource, keys, function: code } of cases) {
    const policies = endpoints[action.split(':')[0]]
    const result = await runSimulation({
      request: {
        principal: 'arn:aws:iam::123456789012:role/function',
        action,
        resource: { resource, accountId: '123456789012' },
        contextVariables: { ...(keys && { 'dynamodb:LeadingKeys': keys }), ...(code && { 'lambda:SourceFunctionArn': code }) },
      },
      identityPolicies: role.map((policy, i) => ({ name: `role ${i}`, policy })),
      ...(policies && { vpcEndpointPolicies: policies.map((policy, i) => ({ name: `endpoint ${i}`, policy })) }),
      serviceControlPolicies: [],
      resourceControlPolicies: [],
    }, {})
    results.push(result.resultType === 'single' ? result.overallResult : JSON.stringify(result))
  }
  console.log(JSON.stringify(results))
}
