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
	"path/filepath"
	"time"

	"github.com/weir-limits/weir/local/checkout"
)

// The image of the functions, and the name of the one that this package makes if it cannot pull it.
const (
	lambdaImage = "public.ecr.aws/lambda/provided:al2023-"
	standIn     = "weir-lambda"
	pullTimeout = 2 * time.Minute
)

// chooseImage selects the image of the functions.
func (s *SAM) chooseImage(ctx context.Context, progress io.Writer) error {
	image := lambdaImage + checkout.HostArch()
	if s.engine.has(ctx, image) {
		return nil
	}
	pulling, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	failed := s.engine.call(pulling, nil, "pull", "--quiet", image)
	if failed == nil {
		return nil
	}
	repository, err := s.standIn(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(progress, "NOTE: the image of Lambda cannot be pulled (%v).\n"+
		"NOTE: the functions run in %s instead of Amazon Linux. That image has only the SAM CLI's emulator of Lambda.\n", failed, repository)
	s.image = []string{"--invoke-image", repository + ":none"}
	return nil
}

// standIn makes an image with the SAM CLI's emulator and the folders that it needs, and returns its repository. The functions
// are static programs, so they need no other files. The SAM CLI adds its emulator to an image and gives the new image the tag
// rapid-<arch>. If an image with this tag already exists, the SAM CLI uses it unchanged.
func (s *SAM) standIn(ctx context.Context) (repository string, err error) {
	name := "aws-lambda-rie-" + checkout.HostArch()
	found, err := filepath.Glob(filepath.Join(filepath.Dir(s.tools), "lib/python3*/site-packages/samcli/local/rapid", name))
	if err != nil || len(found) == 0 {
		return "", errors.Join(err, fmt.Errorf("the SAM CLI in %s has no %s", s.tools, name))
	}
	emulator, err := os.ReadFile(found[0])
	if err != nil {
		return "", err
	}
	repository = fmt.Sprintf("%s-%x", standIn, sha256.Sum256(emulator))[:len(standIn)+13]
	image := repository + ":rapid-" + checkout.HostArch()
	if s.engine.has(ctx, image) {
		return repository, nil
	}
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	for _, dir := range []string{"opt/", "tmp/", "var/", "var/rapid/", "var/runtime/", "var/task/"} {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: int64(fs.ModePerm)}))
	}
	err = errors.Join(err, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "var/rapid/aws-lambda-rie", Mode: int64(fs.ModePerm),
		Size: int64(len(emulator))}))
	_, writeErr := w.Write(emulator)
	err = errors.Join(err, writeErr, w.Close())
	if err == nil {
		err = s.engine.call(ctx, &content, "import", "-", image)
	}
	if err != nil {
		return "", fmt.Errorf("image %s: %w", image, err)
	}
	return repository, nil
}
