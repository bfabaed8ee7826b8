"""Traces and compiles one kernel file with the installed SDK; run, never imported.

It runs in the SDK's own interpreter, which need not have accelopt: only the standard library and
NumPy are used besides the SDK. It shares its process with the candidate, so nothing it says is
trusted: its report can fail a kernel, never pass one, and the judge takes nothing but the file it
named before.

Sources of the calls: `nki.baremetal` is documented for SDK 2.26 and 2.27. The `nki` package
documents no way to compile without a device; its standalone classes are used as public projects do,
and which one exists depends on the version (0.3: `CompileKernel`; 0.6: `compile_kernel_to_nir`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from typing import Any

KERNEL, NEFF, REPORT = "kernel.py", "kernel.neff", "report.json"
LEGACY_OPTIONS = "--disable-dge --logical-nc-config=1"
MAX_TEXT = 20000


def main(folder: str) -> int:
    """Compile what request.json asks for; 0 when there is a program."""
    with open(os.path.join(folder, "request.json"), encoding="utf-8") as file:
        request = json.load(file)
    neff = os.path.join(folder, NEFF)
    report: dict[str, Any] = {}
    try:
        kernel = _load(os.path.join(folder, KERNEL), request["entry"])
        arguments = [_argument(spec) for spec in request["arguments"]]
        compile_with = _legacy if request["dialect"] == "neuronxcc.nki" else _current
        compile_with(kernel, arguments, request, folder, neff)
    except BaseException as error:  # noqa: BLE001 - a SystemExit of the candidate's, say
        if not os.path.exists(neff):
            report["error"] = _described(error)
    report["compiled"] = os.path.exists(neff)
    with open(os.path.join(folder, REPORT), "w", encoding="utf-8") as file:
        json.dump(report, file)
    return 0 if report["compiled"] else 1


def _load(path: str, entry: str) -> Any:
    spec = importlib.util.spec_from_file_location("candidate_kernel", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} can't be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, entry)


def _argument(spec: dict[str, Any]) -> Any:
    import numpy as np

    if spec["value"] is not None:
        return spec["value"]
    try:
        dtype = np.dtype(spec["dtype"])
    except TypeError:
        import ml_dtypes

        dtype = np.dtype(getattr(ml_dtypes, spec["dtype"]))
    return np.zeros(tuple(spec["shape"]), dtype)


def _legacy(
    kernel: Any, arguments: list[Any], request: dict[str, Any], folder: str, neff: str
) -> None:
    """The program is saved before it is run; with no device to run on, the call then fails."""
    import neuronxcc.nki as nki

    runner = nki.baremetal(
        kernel, save_neff_name=neff, additional_compile_opt=request.get("options", LEGACY_OPTIONS)
    )
    if request["grid"]:
        runner = runner[tuple(request["grid"])]
    runner(*arguments)


def _current(
    kernel: Any, arguments: list[Any], request: dict[str, Any], folder: str, neff: str
) -> None:
    if len(request["grid"]) > 1:
        raise ValueError("a kernel of the dialect nki is launched with one number of cores")
    cores = request["grid"][0] if request["grid"] else 1
    if cores != 1:
        raise ValueError("one core is measured: a kernel for several logical cores can't be run")
    artifacts = os.path.join(folder, "artifacts")
    try:
        from nki.compiler.ncc_driver import CompileOptions, compile_bir_to_neff
        from nki.framework.compiled import compile_kernel_to_nir
    except ImportError:
        _standalone(kernel, arguments, artifacts, neff)
        return
    options = CompileOptions(
        target=request["target"], lnc=1, artifacts_dir=artifacts, output_path=neff
    )
    # As nki.jit does by default: the kernel's own schedule stays.
    options = options.disable_backend_optimizations()
    inputs = dict(zip(request["parameters"], arguments, strict=True))
    nir = compile_kernel_to_nir(kernel[1], inputs=inputs, compile_opts=options, enable_cache=False)
    compile_bir_to_neff(
        options,
        nir,
        input_arrays=[],
        argument_names=[spec.name for spec in nir.descriptor.input_specs],
        output_arg_names=[spec.name for spec in nir.descriptor.output_specs],
    )


def _standalone(kernel: Any, arguments: list[Any], artifacts: str, neff: str) -> None:
    try:
        from nki.framework.compiled import CompileKernel
    except ImportError as error:
        raise NotImplementedError(
            f"this version of nki has none of the ways to compile that accelopt knows: {error}"
        ) from None
    plain = getattr(kernel, "func", kernel)
    CompileKernel(func=plain, artifacts_dir=artifacts, _enable_simulation=True)(*arguments)
    os.replace(os.path.join(artifacts, NEFF), neff)


def _described(error: BaseException) -> dict[str, Any]:
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if os.path.basename(frame.filename) == KERNEL
    ]
    if isinstance(error, SyntaxError) and os.path.basename(error.filename or "") == KERNEL:
        lines.append(error.lineno)
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return {
        "kind": type(error).__name__,
        "module": type(error).__module__,
        "message": str(error)[:MAX_TEXT],
        "line": lines[-1] if lines else None,
        "loading": any(
            frame.name == "exec_module" or frame.name == "_load"
            for frame in traceback.extract_tb(error.__traceback__)
        ),
        "traceback": text[-MAX_TEXT:],
    }


if __name__ == "__main__":
    code = main(sys.argv[1])
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads and exit hooks of the candidate have no say any more.
    os._exit(code)
