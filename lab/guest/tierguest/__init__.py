"""The library of the lab's tests inside the guest; lab/README.md has an example.

from tierguest import Guest, test

@test(boot="hmat")
def stopped_programs_drain(guest: Guest) -> None:
    with guest.stairs(mib=64, hot_mib=8, pattern="fixed") as stairs:
        guest.wait_until(lambda: stairs.fast_share() > 0.9, within_s=30, saying=stairs.describe)
"""

from .declare import Absence, Test, declared, test
from .guest import Guest

__all__ = ["Absence", "Guest", "Test", "declared", "test"]
