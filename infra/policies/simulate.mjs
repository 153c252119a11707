// Evaluates the cases of standard input with the policies of a function, and writes one result for each.
// The simulator has the licence AGPL-3.0. Only tests use it, and no release contains it.
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
