package testservers

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weir-limits/weir/local/checkout"
)

// The repository of Lambda's images, and the name of the images that this package builds if it cannot pull
// them.
const (
	lambdaRepository = "public.ecr.aws/lambda/"
	standIn          = "weir-lambda"
	pullTimeout      = 2 * time.Minute
)

// Runtime is a managed runtime of Lambda, such as Node.js.
type Runtime struct {
	// Image is the image of the runtime without the architecture, such as nodejs:22.
	Image string
	// Command runs the runtime interface client and the handler of a function. Its first element is a
	// program of this machine. The name of the handler follows.
	Command []string
	// Files are other files and folders of this machine that Command needs. In a stand-in image they have the
	// same paths.
	Files []string
	// Environment are variables of Command.
	Environment []string
}

// provided is the runtime of a bootstrap.
var provided = Runtime{Image: "provided:al2023"}

// UseRuntime selects the image of a function with a managed runtime and layers. function is its logical id.
// If the image of Lambda cannot be pulled, the function runs in a stand-in image.
func (s *SAM) UseRuntime(ctx context.Context, function string, r Runtime) error {
	if !s.standsIn && s.pull(ctx, r) == nil {
		return nil
	}
	image, err := s.standIn(ctx, r, "latest")
	s.image = append(s.image, "--invoke-image", function+"="+image)
	return err
}

// chooseImage selects the image of the functions with a bootstrap.
func (s *SAM) chooseImage(ctx context.Context, progress io.Writer) error {
	failed := s.pull(ctx, provided)
	if failed == nil {
		return nil
	}
	s.standsIn = true
	// The SAM CLI adds its emulator to an image and gives the new image the tag rapid-<arch>. If an
	// image with this tag already exists, the SAM CLI uses it unchanged.
	image, err := s.standIn(ctx, provided, "rapid-"+checkout.HostArch())
	if err != nil {
		return err
	}
	repository, _, _ := strings.Cut(image, ":")
	fmt.Fprintf(progress, "NOTE: the images of Lambda cannot be pulled (%v).\n"+
		"NOTE: the functions run in %s instead of Amazon Linux. That image has only the SAM CLI's emulator of Lambda.\n", failed, repository)
	s.image = []string{"--invoke-image", repository + ":none"}
	return nil
}

// pull gets the image of a runtime, unless the engine has it.
func (s *SAM) pull(ctx context.Context, r Runtime) error {
	image := lambdaRepository + r.Image + "-" + checkout.HostArch()
	if s.engine.has(ctx, image) {
		return nil
	}
	pulling, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	return s.engine.call(pulling, nil, "pull", "--quiet", image)
}

// standIn builds an image of a runtime, and returns its name with tag.
func (s *SAM) standIn(ctx context.Context, r Runtime, tag string) (image string, err error) {
	archive, err := s.archive(ctx, r)
	if err != nil {
		return "", err
	}
	image = fmt.Sprintf("%s-%x", standIn, sha256.Sum256(archive))[:len(standIn)+13] + ":" + tag
	if s.engine.has(ctx, image) {
		return image, nil
	}
	if err := s.engine.call(ctx, bytes.NewReader(archive), "import", "-", image); err != nil {
		return "", fmt.Errorf("image %s: %w", image, err)
	}
	return image, nil
}

// archive returns the files of a stand-in image: the SAM CLI's emulator, the folders that it needs, and the
// runtime. The bootstraps of functions without a runtime are static programs, so they need no other files.
func (s *SAM) archive(ctx context.Context, r Runtime) ([]byte, error) {
	emulator := "aws-lambda-rie-" + checkout.HostArch()
	found, err := filepath.Glob(filepath.Join(filepath.Dir(s.tools), "lib/python3*/site-packages/samcli/local/rapid", emulator))
	if err != nil || len(found) == 0 {
		return nil, errors.Join(err, fmt.Errorf("the SAM CLI in %s has no %s", s.tools, emulator))
	}
	var content bytes.Buffer
	a := archive{w: tar.NewWriter(&content)}
	for _, dir := range []string{"opt/", "tmp/", "var/", "var/rapid/", "var/runtime/", "var/task/"} {
		a.write(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: int64(fs.ModePerm)}, nil)
	}
	a.copy(found[0], "var/rapid/aws-lambda-rie")
	if r.Command != nil {
		a.addRuntime(ctx, r)
	}
	return content.Bytes(), errors.Join(a.err, a.w.Close())
}

// archive is a tar file with files of this machine. After the first error, nothing is added.
type archive struct {
	w   *tar.Writer
	err error
}

func (a *archive) write(h *tar.Header, content []byte) {
	if a.err == nil {
		a.err = a.w.WriteHeader(h)
	}
	if a.err == nil {
		_, a.err = a.w.Write(content)
	}
}

// copy adds the file at path under a name.
func (a *archive) copy(path, name string) {
	content, err := os.ReadFile(path)
	a.err = errors.Join(a.err, err)
	a.write(&tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(name, "/"), Mode: int64(fs.ModePerm), Size: int64(len(content))},
		content)
}

// shellPrograms are those that the SAM CLI runs when it adds a layer to an image, and the shell that runs
// wrapper scripts.
var shellPrograms = []string{"sh", "chmod", "cp", "mv", "rm"}

// addRuntime adds a runtime with its libraries, and its bootstrap.
func (a *archive) addRuntime(ctx context.Context, r Runtime) {
	programs := []string{r.Command[0]}
	for _, name := range shellPrograms {
		path, err := exec.LookPath(name)
		a.err = errors.Join(a.err, err)
		a.copy(path, "bin/"+name)
		programs = append(programs, path)
	}
	a.copy(r.Command[0], r.Command[0])
	for _, root := range r.Files {
		for _, path := range a.files(root) {
			a.copy(path, path)
			if strings.Contains(filepath.Base(path), ".so") {
				programs = append(programs, path)
			}
		}
	}
	found, err := libraries(ctx, programs)
	a.err = errors.Join(a.err, err)
	for _, path := range found {
		a.copy(path, path)
	}
	script := r.bootstrap()
	a.write(&tar.Header{Typeflag: tar.TypeReg, Name: "var/runtime/bootstrap", Mode: int64(fs.ModePerm), Size: int64(len(script))}, script)
}

// bootstrap returns a script that starts the runtime with the wrapper script of the function, if there is
// one, as Lambda does.
func (r Runtime) bootstrap() []byte {
	var script bytes.Buffer
	fmt.Fprintln(&script, "#!/bin/sh\ncd /var/task")
	for _, variable := range append([]string{"LAMBDA_TASK_ROOT=/var/task", "LAMBDA_RUNTIME_DIR=/var/runtime"}, r.Environment...) {
		fmt.Fprintf(&script, "export '%s'\n", variable)
	}
	fmt.Fprintf(&script, "exec $AWS_LAMBDA_EXEC_WRAPPER '%s' \"$_HANDLER\"\n", strings.Join(r.Command, "' '"))
	return script.Bytes()
}

// files returns the paths of the files below root. It omits tests, caches, and the packages of a Python
// library.
func (a *archive) files(root string) (paths []string) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && slices.Contains([]string{"__pycache__", "site-packages", "test", "tests"}, d.Name()):
			return fs.SkipDir
		case !d.IsDir():
			paths = append(paths, path)
		}
		return nil
	})
	a.err = errors.Join(a.err, err)
	return paths
}

var library = regexp.MustCompile(`(/\S+) \(0x`)

// libraries returns the shared libraries that programs load.
func libraries(ctx context.Context, programs []string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "ldd", programs...).Output()
	var found []string
	for _, match := range library.FindAllStringSubmatch(string(out), -1) {
		found = append(found, match[1])
	}
	slices.Sort(found)
	return slices.Compact(found), err
}
