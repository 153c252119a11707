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
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

const (
	standardLibrary = "std"
	chartLibrary    = "uPlot"
)

// chart matches the first line of uPlot in a program that embeds the page of the console.
var chart = regexp.MustCompile(`/\*! https://github\.com/leeoniya/uPlot \(v([0-9.]+)\) \*/`)

// contents returns the path of a program's main module, and the components that the program contains:
// modules, the standard library and uPlot. The go command recorded the modules in the program when it
// built the program.
func contents(program []byte) (main string, components []cyclonedx.Component, err error) {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return "", nil, fmt.Errorf("not a Go program: %w", err)
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		components = append(components, component(m))
	}
	components = append(components, component(&debug.Module{Path: standardLibrary, Version: info.GoVersion}))
	if version := chart.FindSubmatch(program); version != nil {
		components = append(components, library(chartLibrary, string(version[1]), "pkg:npm/uplot@"+string(version[1])))
	}
	return info.Main.Path, components, nil
}

// inventory returns a CycloneDX document with the components of all programs.
func inventory(main, version string, components map[string]cyclonedx.Component) ([]byte, error) {
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		BOMRef: packageURL(main, version), Type: cyclonedx.ComponentTypeApplication, Name: main, Version: version, PackageURL: packageURL(main,
			version),
	}}
	all := slices.SortedFunc(maps.Values(components), func(a, b cyclonedx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	bom.Components = &all
	var out bytes.Buffer
	e := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true)
	err := e.EncodeVersion(bom, cyclonedx.SpecVersion1_6)
	return out.Bytes(), err
}

// component returns the entry of a module in the document. The entry has the digest from go.sum if the
// program contains this digest.
func component(m *debug.Module) cyclonedx.Component {
	c := library(m.Path, m.Version, packageURL(m.Path, m.Version))
	if digest, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(digest) > 0 {
		c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(digest)}}
	}
	return c
}

func library(name, version, address string) cyclonedx.Component {
	return cyclonedx.Component{BOMRef: address, Type: cyclonedx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: address}
}

// packageURL returns the package URL of a Go module (github.com/package-url/purl-spec). It keeps capital
// letters, because the paths of modules are case-sensitive.
func packageURL(path, version string) string {
	return "pkg:golang/" + path + "@" + url.QueryEscape(version)
}
