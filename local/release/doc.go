// Package release packs the built programs into the files that a release publishes:
//
//   - FUNCTION_ARCH.zip: one function for Lambda, with arm64 and x86_64 as Lambda names them
//   - weir_OS_ARCH.tar.gz: the command, with the names of Go
//   - sbom.cdx.json: the modules in these programs, as a CycloneDX 1.6 document
//   - CHANGES.md: what the changelog says about the version
//   - SHA256SUMS: the digests of the others, for sha256sum --check
//
// The same programs give the same bytes: no file contains a time, a path or the order of a folder.
package release
