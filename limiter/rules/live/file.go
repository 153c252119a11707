package live

import (
	"cmp"
	"context"
	"os"
)

// File is a Source that reads a document from a file. A document without a version gets Version or, if that is 0, the time
// of the file's last change in milliseconds, so two changes in one second have different versions.
type File struct {
	Path    string
	Version int64
}

// Document implements Source.
func (f File) Document(context.Context) (Document, error) {
	info, err := os.Stat(f.Path) // Stat comes first. If the file changes between Stat and the read, the next reload sees a later time.
	if err != nil {
		return Document{}, err
	}
	content, err := os.ReadFile(f.Path)
	return Document{Content: content, Version: cmp.Or(f.Version, max(0, info.ModTime().UnixMilli()))}, err
}
