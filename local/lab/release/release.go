package release

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"

	"github.com/weir-limits/weir/functions/contract"
)

// Programs are the built programs of a release and the texts that go with them.
type Programs struct {
	Version   string   // such as v1.2.0
	Functions string   // folder with ARCH/FUNCTION/bootstrap
	Commands  string   // folder with OS_ARCH/weir
	Rules     string   // path of the rules document in the functions
	Templates []string // paths of the CloudFormation templates
	Page      string   // path of its page
	Examples  string   // folder with the folders of the examples
	Policies  string   // folder with deployer.json and operator.json
	License   string   // path of the license
	Changelog string   // path of the changelog
	Modules   string   // module cache
	Toolchain string   // GOROOT of the go command that built the programs
	Chart     string   // folder with uPlot and its license
}

// architectures are those of Lambda.
var architectures = []string{"arm64", "x86_64"}

// versions matches the valid versions of a release: semantic versions with the prefix v, as for Go
// modules.
var versions = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

type file struct {
	name    string
	content []byte
	program bool // the file is executable
}

// Write packs p into the folder dir, which it replaces. It returns the names of the files, sorted. If a
// program or a text is missing, Write returns an error and does not change dir.
func Write(dir string, p Programs) ([]string, error) {
	if !versions.MatchString(p.Version) {
		return nil, fmt.Errorf("version: invalid (got %q, want a version such as v1.2.0)", p.Version)
	}
	k := &packer{Programs: p, licenses: licenses{p, map[string][]notice{}}, components: map[string]cyclonedx.Component{}}
	files, err := k.pack()
	if err != nil {
		return nil, err
	}
	sbom, err := inventory(k.main, p.Version, k.components)
	if err != nil {
		return nil, err
	}
	repository := "https://" + k.main + "/blob/" + p.Version + "/"
	changes, err := section(p.Changelog, repository, p.Version)
	if err != nil {
		return nil, err
	}
	guide, err := k.guide(repository)
	if err != nil {
		return nil, err
	}
	files = slices.Concat(files, guide, []file{{name: "sbom.cdx.json", content: sbom}, {name: "CHANGES.md", content: changes}})
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	files = append(files, file{name: "SHA256SUMS", content: sums(files)})
	return write(dir, files)
}

// write writes the files into a new folder beside dir. This folder then replaces dir, so that dir never
// contains an incomplete release.
func write(dir string, files []file) (names []string, err error) {
	dir = filepath.Clean(dir)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	next, err := os.MkdirTemp(filepath.Dir(dir), ".release-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(next)) }()
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(next, f.name), f.content, 0o644); err != nil {
			return nil, err
		}
		names = append(names, f.name)
	}
	if err := errors.Join(os.Chmod(next, 0o755), os.RemoveAll(dir)); err != nil {
		return nil, err
	}
	return names, os.Rename(next, dir)
}

// packer packs the programs and collects the components in them.
type packer struct {
	Programs
	licenses   licenses
	main       string                         // path of the main module
	components map[string]cyclonedx.Component // by package URL
}

// pack returns the templates and the archives of all programs.
func (k *packer) pack() ([]file, error) {
	rules, err := os.ReadFile(k.Rules)
	if err != nil {
		return nil, err
	}
	var templates []file
	for _, path := range k.Templates {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		templates = append(templates, file{name: filepath.Base(path), content: content})
	}
	functions, err := k.functions(rules)
	if err != nil {
		return nil, err
	}
	commands, err := k.commands()
	return slices.Concat(templates, functions, commands), err
}

// functions returns the archives of the functions and of the layers.
func (k *packer) functions(rules []byte) (files []file, err error) {
	paths, err := programs(k.Functions, "*/*/bootstrap")
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		function, arch := filepath.Base(filepath.Dir(path)), filepath.Base(filepath.Dir(filepath.Dir(path)))
		if !slices.Contains(architectures, arch) {
			return nil, fmt.Errorf("%s: unknown architecture (got %q, want arm64 or x86_64)", path, arch)
		}
		program, texts, err := k.read(path)
		if err != nil {
			return nil, err
		}
		packed, err := zipped(bundle(function, program, rules, texts)...)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: contract.Archive(function, arch), content: packed})
	}
	return files, nil
}

func (k *packer) commands() (files []file, err error) {
	paths, err := programs(k.Commands, "*/weir")
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		program, texts, err := k.read(path)
		if err != nil {
			return nil, err
		}
		packed, err := tarred(append(texts, file{"weir", program, true})...)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: "weir_" + filepath.Base(filepath.Dir(path)) + ".tar.gz", content: packed})
	}
	return files, nil
}

// The files of the examples. Others, such as the state of Terraform, come from using an example in this checkout.
var exampleFiles = []string{"*.js", "*.md", "*.py", "*.tf", "*.ts", "*.yaml", ".npmrc", "cdk.json", "package.json", "package-lock.json",
	"requirements.txt", "tsconfig.json"}

// exampleVersion is the version of the release that the page and the examples in the repository use.
const exampleVersion = "v1.0.0"

// released returns a text of the repository for the release.
func (k *packer) released(text []byte) []byte {
	return bytes.ReplaceAll(text, []byte(exampleVersion), []byte(k.Version))
}

// guide returns the page of the template, its examples and its policies.
func (k *packer) guide(repository string) ([]file, error) {
	page, err := os.ReadFile(k.Page)
	files := []file{{name: "TEMPLATE.md", content: k.released(absolute(page, repository, "infra"))}}
	for _, role := range []string{"deployer", "operator"} {
		policy, readErr := os.ReadFile(filepath.Join(k.Policies, role+".json"))
		err = errors.Join(err, readErr)
		files = append(files, file{name: role + "-policy.json", content: policy})
	}
	var examples []file
	for _, pattern := range exampleFiles {
		paths, globErr := programs(k.Examples, "*/"+pattern)
		err = errors.Join(err, globErr)
		for _, found := range paths {
			if filepath.Base(filepath.Dir(found)) == "testdata" {
				continue
			}
			content, readErr := os.ReadFile(found)
			err = errors.Join(err, readErr)
			name := "examples/" + filepath.Base(filepath.Dir(found))
			if strings.HasSuffix(found, ".md") {
				content = absolute(content, repository, "infra/"+name)
			}
			examples = append(examples, file{name: name + "/" + filepath.Base(found), content: k.released(content)})
		}
	}
	packed, packErr := tarred(examples...)
	return append(files, file{name: "examples.tar.gz", content: packed}), errors.Join(err, packErr)
}

// read returns a program, and the licenses of Weir and of the components in the program.
func (k *packer) read(path string) (program []byte, texts []file, err error) {
	license, err := os.ReadFile(k.License)
	if err != nil {
		return nil, nil, err
	}
	program, err = os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	main, components, err := contents(program)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	k.main = main
	for _, c := range components {
		k.components[c.BOMRef] = c
	}
	others, err := k.licenses.document(components)
	return program, []file{{name: "LICENSE", content: license}, {name: "THIRD-PARTY-LICENSES", content: others}}, err
}

// bundle returns the files of a function, or of the layer. Lambda unpacks all layers of a function into one
// folder, so the names of the texts in the layer have a prefix.
func bundle(function string, program, rules []byte, texts []file) []file {
	if !strings.HasPrefix(function, contract.Extension) {
		return append([]file{{"bootstrap", program, true}, {name: "rules.json", content: rules}}, texts...)
	}
	files := []file{
		{contract.LayerExtension, program, true}, {contract.LayerWrapper, []byte(contract.LayerScript()), true},
		{name: contract.LayerRules, content: rules},
	}
	for _, text := range texts {
		files = append(files, file{name: "weir-" + text.name, content: text.content})
	}
	return files
}

// programs returns the paths in folder that match pattern, sorted.
func programs(folder, pattern string) ([]string, error) {
	found, err := fs.Glob(os.DirFS(folder), pattern)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s: no file %s; build the programs first", folder, pattern)
	}
	for i, path := range found {
		found[i] = filepath.Join(folder, filepath.FromSlash(path))
	}
	return found, err
}

func (f file) mode() fs.FileMode {
	if f.program {
		return 0o755
	}
	return 0o644
}

func zipped(files ...file) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	var err error
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate}
		header.SetMode(f.mode())
		w, headerErr := z.CreateHeader(header)
		err = errors.Join(err, headerErr)
		if headerErr == nil {
			_, headerErr = w.Write(f.content)
			err = errors.Join(err, headerErr)
		}
	}
	err = errors.Join(err, z.Close())
	return out.Bytes(), err
}

func tarred(files ...file) ([]byte, error) {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	t := tar.NewWriter(compressed)
	var err error
	for _, f := range files {
		err = errors.Join(err, t.WriteHeader(&tar.Header{Name: f.name, Mode: int64(f.mode()), Size: int64(len(f.content)),
			Format: tar.FormatUSTAR}))
		_, writeErr := t.Write(f.content)
		err = errors.Join(err, writeErr)
	}
	err = errors.Join(err, t.Close(), compressed.Close())
	return out.Bytes(), err
}

// section returns the part of the changelog under the heading of a version. Before a version is
// published, the heading is Next.
func section(name, repository, version string) ([]byte, error) {
	changelog, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var found string
	for part := range strings.SplitSeq(string(changelog), "\n## ") {
		heading, body, _ := strings.Cut(part, "\n")
		heading = strings.TrimSpace(heading)
		if heading == version || heading == "Next" && found == "" {
			found = body
		}
	}
	if found == "" {
		return nil, fmt.Errorf("%s: no section for the release (want the heading %s or Next)", name, version)
	}
	return absolute([]byte("# Weir "+version+"\n\n"+strings.TrimSpace(found)+"\n"), repository, ""), nil
}

// absolute returns a page in a folder of the repository with links that lead to the repository.
func absolute(page []byte, repository, folder string) []byte {
	return relative.ReplaceAllFunc(page, func(link []byte) []byte {
		target := string(link[2 : len(link)-1])
		return []byte("](" + repository + path.Join(folder, target) + ")")
	})
}

// relative matches a link to a file of the repository.
var relative = regexp.MustCompile(`\]\([\w.][\w./#-]*\)`)

// sums returns the digests of the files, as sha256sum prints them.
func sums(files []file) []byte {
	var out bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(f.content), f.name)
	}
	return out.Bytes()
}
