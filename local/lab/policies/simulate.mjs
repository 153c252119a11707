// Evaluates test cases from standard input against IAM policies, and writes one result for each.
// The simulator's licence is AGPL-3.0; only tests use it, and no release contains it.
import { readFileSync } from 'node:fs'
import { runSimulation } from '@cloud-copilot/iam-simulate'

const { role, endpoints, cases } = JSON.parse(readFileSync(0))
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
process.stdout.write(JSON.stringify(results))
