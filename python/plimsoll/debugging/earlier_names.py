"""Names that programs of an earlier tool call; they stay for those programs alone."""

from __future__ import annotations

from typing import Any, Protocol


class _Debugger(Protocol):
    def start(self) -> Any: ...
    def stop(self) -> None: ...
    def report(self) -> dict[str, Any]: ...
    def write_report(self, path: str) -> None: ...


class EarlierNames:
    """`start`, `stop`, `report` and `write_report` of a debugger, as they were called before."""

    def start_monitoring(self: _Debugger) -> Any:
        return self.start()

    def stop_monitoring(self: _Debugger) -> None:
        self.stop()

    def get_status_report(self: _Debugger) -> dict[str, Any]:
        report = self.report()
        used = report["summary"]["usedPercent"]
        report["summary"]["overallUtilizationPercent"] = used
        return report

    def generate_report(self: _Debugger, path: str) -> None:
        self.write_report(path)
