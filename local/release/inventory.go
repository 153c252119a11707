package release

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// inventory returns the path of the programs' main module, and a CycloneDX document with the modules
// that the programs contain. The go command recorded the modules in each program when it built the
// program.
func inventory(version string, binaries []string) (main string, document []byte, err error) {
	components := map[string]cyclonedx.Component{}
	var toolchain string
	for _, path := range binaries {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return "", nil, fmt.Errorf("%s: not a Go program: %w", path, err)
		}
		main, toolchain = info.Main.Path, info.GoVersion
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			c := component(m)
			components[c.BOMRef] = c
		}
	}
	library := component(&debug.Module{Path: "std", Version: toolchain})
	components[library.BOMRef] = library
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		BOMRef: packageURL(main, version), Type: cyclonedx.ComponentTypeApplication, Name: main, Version: version, PackageURL: packageURL(main, version),
	}}
	all := slices.SortedFunc(maps.Values(components), func(a, b cyclonedx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	bom.Components = &all
	var out bytes.Buffer
	e := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true)
	err = e.EncodeVersion(bom, cyclonedx.SpecVersion1_6)
	return main, out.Bytes(), err
}

// component returns the entry of a module in the document. The entry has the digest from go.sum if the
// program contains this digest.
func component(m *debug.Module) cyclonedx.Component {
	c := cyclonedx.Component{
		BOMRef: packageURL(m.Path, m.Version), Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: packageURL(m.Path, m.Version),
	}
	if digest, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(digest) > 0 {
		c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(digest)}}
	}
	return c
}

// packageURL returns the package URL of a Go module (github.com/package-url/purl-spec). It keeps capital
// letters, because the paths of modules are case-sensitive.
func packageURL(path, version string) string {
	return "pkg:golang/" + path + "@" + url.QueryEscape(version)
}
