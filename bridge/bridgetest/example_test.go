package bridgetest_test

import (
	"fmt"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// An upstream that executes the first write and never says so.
func Example() {
	lost, err := bridgetest.ParseFault("lost-reply@write_notex1")
	if err != nil {
		fmt.Println(err)
		return
	}
	u, err := bridgetest.Start(bridgetest.Options{Era: bridgetest.Both, Faults: []bridgetest.Fault{lost}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer u.Close()
	// Point a bridge at u.URL(), let it call write_note, and compare:
	fmt.Println(u.Ledger().Deliveries("write_note"), u.Ledger().Effects("write_note"))
	// Output: 0 0
}
