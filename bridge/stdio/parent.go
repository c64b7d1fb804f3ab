package stdio

import "os"

// A Parent is the process that started this one.
type Parent struct{ pid int }

// CurrentParent returns the parent as it is now. To be called at start.
func CurrentParent() Parent { return Parent{os.Getppid()} }

// Gone reports whether this process has another parent by now, which is how
// Unix shows that the first one ended. A parent of 1 or 0 at start (a service
// manager, a container, a parent that had ended already) is never gone. On
// Windows none is: there a host that ended shows at the pipes.
func (p Parent) Gone() bool { return p.pid > 1 && os.Getppid() != p.pid }
