package ui

import (
	"os"
	"testing"

	"payledger/httpapi/ui/uitest"
)

// Every page calls a thing by its one name.
func TestGlossary(t *testing.T) {
	t.Parallel()
	uitest.Glossary(t, os.DirFS("locales"), os.DirFS("."), os.DirFS("../account"), os.DirFS("../checkout"))
}
