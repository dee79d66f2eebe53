package main

import (
	"maps"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Allocated is a claim of one pod with a part of a device in each of these amounts.
func allocated(amounts ...string) *resourceapi.ResourceClaim {
	var results []resourceapi.DeviceRequestAllocationResult
	for _, amount := range amounts {
		results = append(results, resourceapi.DeviceRequestAllocationResult{
			Request: "fast", Driver: driverName, Pool: "n1", Device: deviceName,
			ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{
				capacity: resource.MustParse(amount),
			},
		})
	}
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-fast", UID: "claim-1"},
		Status: resourceapi.ResourceClaimStatus{
			ReservedFor: []resourceapi.ResourceClaimConsumerReference{
				{Resource: "pods", Name: "web", UID: "pod-1"},
			},
			Allocation: &resourceapi.AllocationResult{
				Devices: resourceapi.DeviceAllocationResult{Results: results},
			},
		},
	}
}

func TestFloorIsTheConsumedCapacity(t *testing.T) {
	claim := allocated("2Gi", "512Mi")
	results := claim.Status.Allocation.Devices.Results
	// Another driver's device, and one that an administrator looks at.
	other := results[0]
	other.Driver = "gpu.example.org"
	looked := results[0]
	looked.ConsumedCapacity = nil
	claim.Status.Allocation.Devices.Results = append(results, other, looked)
	found, devices, err := prepare(claim, "n1")
	if err != nil {
		t.Fatal(err)
	}
	if want := (Prepared{"shop/web-fast", "pod-1", 2<<30 + 512<<20}); found != want {
		t.Errorf("found %+v; wanted %+v", found, want)
	}
	if len(devices) != 3 || devices[0].PoolName != "n1" || devices[0].Requests[0] != "fast" {
		t.Errorf("found devices %+v", devices)
	}
}

func TestWrongClaimsAreRefusedWithReasons(t *testing.T) {
	shared := allocated("1Gi")
	shared.Status.ReservedFor = append(shared.Status.ReservedFor, shared.Status.ReservedFor[0])
	pending := allocated("1Gi")
	pending.Status.Allocation = nil
	elsewhere := allocated("1Gi")
	elsewhere.Status.Allocation.Devices.Results[0].Pool = "n2"
	endless := allocated("7Ei", "7Ei")
	for want, claim := range map[string]*resourceapi.ResourceClaim{
		"claim shop/web-fast: found 2 users; allowed: one pod": shared,
		"found no allocation":                                pending,
		"found device fast of pool n2; allowed: device fast": elsewhere,
		"more bytes than a number of 64 bits can hold":       endless,
	} {
		if _, _, err := prepare(claim, "n1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v; wanted %q", err, want)
		}
	}
}

func TestClaimsOfOnePodAreAddedUp(t *testing.T) {
	found := floors(map[types.UID]Prepared{
		"c1": {"shop/a", "pod-1", 1}, "c2": {"shop/b", "pod-1", 2}, "c3": {"shop/c", "pod-2", 4},
	})
	if want := map[string]int64{"pod-1": 3, "pod-2": 4}; !maps.Equal(found, want) {
		t.Errorf("found %v; wanted %v", found, want)
	}
	if floors(nil) == nil {
		t.Error("without claims the daemon must get an empty list, which takes all away")
	}
}

func TestDeviceIsInWholeSteps(t *testing.T) {
	for bytes, want := range map[int64]int64{
		0: 0, 2<<20 - 1: 0, 4<<20 - 1: 0, 4 << 20: 4 << 20, 16<<30 + 12345: 16 << 30,
	} {
		devices := resources("n1", bytes).Pools["n1"].Slices[0].Devices
		found := int64(0)
		if len(devices) > 0 {
			amount := devices[0].Capacity[capacity].Value
			found = amount.Value()
		}
		if found != want {
			t.Errorf("%d bytes: found a device of %d; wanted %d", bytes, found, want)
		}
	}
}
