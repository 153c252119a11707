// Package release packs the built programs into the files that a release publishes:
//
//   - FUNCTION_ARCH.zip: one function for Lambda; ARCH is arm64 or x86_64
//     The file also contains rules.json, a document without rules.
//   - layer-ARCH.zip: the layer for functions in other languages
//   - weir.template.json and weir-elasticache.template.json: the CloudFormation templates that deploy these functions
//   - TEMPLATE.md: its page; links lead to the repository at the version, and its commands use the version
//   - examples.tar.gz: the examples of the page, with the version
//   - deployer-policy.json and operator-policy.json: the IAM policies of who deploys the template and of who operates it
//   - weir_OS_ARCH.tar.gz: the command; OS and ARCH are GOOS and GOARCH
//   - sbom.cdx.json: the components in these programs, as a CycloneDX 1.6 document
//   - CHANGES.md: the section of the changelog for the version
//   - SHA256SUMS: the digests of the other files, for sha256sum --check
//
// Each archive contains LICENSE and THIRD-PARTY-LICENSES, the licenses of the components in its program. In
// the layer, the prefix of these names is weir-. If a component has no license, the release fails.
//
// The same programs give the same bytes: no file contains a time or a path, or depends on the order of
// files in a folder.
package release
