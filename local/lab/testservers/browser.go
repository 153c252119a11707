package testservers

import (
	"fmt"

	"github.com/weir-limits/weir/local/servers"
)

// browsers are the programs that tests of the web page can drive. Chrome comes first, because on Ubuntu the
// sandbox works for Chrome, but not for all builds of Chromium.
var browsers = []string{"google-chrome", "google-chrome-stable", "chromium", "chromium-browser"}

// Browser returns the program of a Chromium or Chrome on the PATH.
func Browser() (string, error) {
	for _, name := range browsers {
		if onPath(name) {
			return name, nil
		}
	}
	return "", fmt.Errorf("chromium %w on the PATH (Debian: apt-get install chromium; macOS: brew install --cask google-chrome, and a link "+
		"to it as google-chrome)", servers.ErrMissing)
}

func hasBrowser() bool {
	_, err := Browser()
	return err == nil
}
