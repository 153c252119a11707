// Package standalone makes the CloudFormation templates of a release: weir.template.json with a table of DynamoDB, and
// weir-elasticache.template.json. Users deploy them with any tool: without Go, without the CDK, and without a build.
//
// The templates come from the construct of package ratelimit.
package standalone
