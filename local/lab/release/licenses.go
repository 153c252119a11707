package release

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
	"golang.org/x/mod/module"
)

// These patterns match the names of the files that a copy of a component must contain. If a component has
// no file of the first kind, the release fails.
var (
	licenseFile = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying)\b`)
	noticeFile  = regexp.MustCompile(`(?i)^(notice|patents|copyright)(\.(md|txt))?$`)
)

// notice is a license or a notice of a component.
type notice struct{ source, text string }

// licenses reads the notices of components, once for each component.
type licenses struct {
	programs Programs
	read     map[string][]notice // by package URL
}

// document returns a text with the notices of the components. Equal notices appear once.
func (l *licenses) document(components []cyclonedx.Component) ([]byte, error) {
	sources, texts := map[string][]string{}, []string{}
	for _, c := range components {
		notices, err := l.notices(c)
		if err != nil {
			return nil, err
		}
		for _, n := range notices {
			if sources[n.text] == nil {
				texts = append(texts, n.text)
			}
			sources[n.text] = append(sources[n.text], n.source)
		}
	}
	var out bytes.Buffer
	out.WriteString("This program contains software of others. A list of files precedes the text that they share.\n")
	for _, text := range texts {
		fmt.Fprintf(&out, "\n%s\n%s\n\n%s\n", strings.Repeat("-", 80), strings.Join(sources[text], "\n"), text)
	}
	return out.Bytes(), nil
}

// notices returns the notices of a component, sorted by path.
func (l *licenses) notices(c cyclonedx.Component) ([]notice, error) {
	if found, ok := l.read[c.BOMRef]; ok {
		return found, nil
	}
	folder, err := l.folder(c)
	if err != nil {
		return nil, err
	}
	var found []notice
	complete := false
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != folder && (c.Name == standardLibrary || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) == ".go" || !licenseFile.MatchString(d.Name()) && !noticeFile.MatchString(d.Name()):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		found = append(found, notice{c.Name + " " + c.Version + ": " + filepath.ToSlash(name),
			strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n"))})
		complete = complete || filepath.Dir(path) == folder && licenseFile.MatchString(name)
		return err
	})
	if err == nil && !complete {
		err = fmt.Errorf("%s %s: no license file in %s; find its license before you publish it", c.Name, c.Version, folder)
	}
	slices.SortFunc(found, func(a, b notice) int { return strings.Compare(a.source, b.source) })
	l.read[c.BOMRef] = found
	return found, err
}

func (l *licenses) folder(c cyclonedx.Component) (string, error) {
	switch c.Name {
	case standardLibrary:
		return l.programs.Toolchain, nil
	case chartLibrary:
		return l.programs.Chart, nil
	}
	path, err := module.EscapePath(c.Name)
	if err != nil {
		return "", err
	}
	version, err := module.EscapeVersion(c.Version)
	return filepath.Join(l.programs.Modules, filepath.FromSlash(path)+"@"+version), err
}
