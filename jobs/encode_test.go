package jobs

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// TestRecordsAreWhatJSONSays fills jobs at random: each member of the type is in
// the record as encoding/json would write it.
func TestRecordsAreWhatJSONSays(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 2000 {
		var j Job
		for v := range reflect.ValueOf(&j).Elem().NumField() {
			if n == 0 || random.IntN(3) > 0 { // the first has all
				fillField(random, reflect.ValueOf(&j).Elem().Field(v))
			}
		}
		want, err := json.Marshal(&j)
		if err != nil {
			t.Fatal(err)
		}
		got, err := j.appendRecord(nil)
		if err != nil || string(got) != string(want) {
			t.Fatalf("record %s, %v\nwant   %s", got, err, want)
		}
	}
}

// fillField sets a value and all that is in it to something that is not zero.
func fillField(random *rand.Rand, v reflect.Value) {
	switch at := v.Addr().Interface().(type) {
	case *time.Time:
		*at = time.Unix(random.Int64N(1<<32), random.Int64N(2)*random.Int64N(1e9)).UTC()
		return
	case *json.RawMessage:
		*at = json.RawMessage(fmt.Sprintf(`{"a":%d}`, random.IntN(9)))
		return
	case *Print:
		at[random.IntN(len(at))] = 1
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("t\"\\\n\t é 日 ", random.IntN(100)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1 + random.Int64N(1000))
	case reflect.Uint64:
		v.SetUint(1 + random.Uint64N(1000))
	case reflect.Uint8:
		v.SetUint(1) // the second name of each of our kinds
	case reflect.Float64:
		v.SetFloat(random.Float64() * 100)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillField(random, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+random.IntN(3), 3))
		for i := range v.Len() {
			fillField(random, v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("k"), reflect.ValueOf("v"))
	case reflect.Struct:
		for i := range v.NumField() {
			fillField(random, v.Field(i))
		}
	default:
		panic(v.Kind())
	}
}

// TestRecordOfStrangeText: whatever a host or a server calls things, the record
// can be read.
func TestRecordOfStrangeText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"<a & b>", "\u2028\u2029", "\xff\xfe", "a\x00b", "\U0010ffff"} {
		j := Job{Handle: "job_a", Tool: text, Timeline: []Event{{What: "begun", Note: text}}}
		record, err := j.appendRecord(nil)
		if err != nil {
			t.Fatal(err)
		}
		var got, want Job
		if err := json.Unmarshal(record, &got); err != nil {
			t.Fatalf("%q: %v in %s", text, err, record)
		}
		plain, _ := json.Marshal(&j)
		if err := json.Unmarshal(plain, &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q was read as %+v, want %+v", text, got, want)
		}
	}
}
