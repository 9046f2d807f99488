package command

import "github.com/steadyfleet/steady/internal/disk"

// keptOut is what people make in a fleet's folder and never belongs into its repository. Each
// is of that folder alone: a bundle may have a folder of such a name.
var keptOut = []string{
	"/keys/*.key", "/keys/shares/", "/keys/next/", "/keys/retired/", "/keys/operators/",
	"/data/", "/hosts/", "/tokens/", "/*.token", "/operator.json",
	"/release/", "/release.previous/", "/release.rollback/", "/*.accepted.json",
}

const keptOutWhy = "# Private keys, tokens and what servers and hosts keep never belong into a repository;\n# releases are built from it."

// KeepOut has git leave out private keys, tokens, the folders of servers and hosts, and built
// releases, whatever else the folder's .gitignore says. It returns the file's name.
func KeepOut(dir string) (string, error) { return disk.Ignore(dir, keptOutWhy, keptOut...) }
