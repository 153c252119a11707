// Package checkout finds the clone of this repository in which a command runs. It has the paths of
// files in the repository. It creates and reads the local files in .weir, such as the signing key and
// the sample API keys. These files are in no commit.
package checkout
