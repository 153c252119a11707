// Package standalone makes weir.template.json, the CloudFormation template of a release. Its users deploy
// it with any tool: without Go, without the CDK, and without a build.
//
// The template comes from the construct of package ratelimit. The construct cannot know a parameter of the
// template, so the package synthesizes one template for each combination of the parameters that add or
// remove resources, and merges them: what only some of them have gets a condition.
package standalone
