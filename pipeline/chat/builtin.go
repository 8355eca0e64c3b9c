package chat

import (
	"embed"
	"path"
	"strings"
)

//go:embed templates
var templates embed.FS

// Names returns the names of the templates that are built in: the forms that
// well-known families of models were trained with, for models whose file has no
// template or one that cannot be rendered.
func Names() []string {
	entries, err := templates.ReadDir("templates")
	if err != nil {
		panic(err) // they are in the program
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), path.Ext(e.Name()))
	}
	return names
}

// Source returns the template of that name that is built in.
func Source(name string) (source string, ok bool) {
	data, err := templates.ReadFile("templates/" + name + ".jinja")
	return string(data), err == nil
}
