package bolt

import "testing"

func TestFreeSpaceOfTheSystem(t *testing.T) {
	t.Parallel()
	free, err := FreeSpace(t.TempDir())
	if err != nil || free == 0 {
		t.Errorf("%d, %v", free, err)
	}
}
