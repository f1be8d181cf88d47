package account

import (
	"os"
	"testing"

	"payledger/httpapi/ui/uitest"
)

func TestWords(t *testing.T) { uitest.Words(t, os.DirFS(".")) }
