"""Library functions that consult a learned choice before they run.

A function is replaced by an object that NumPy's own dispatcher calls. The dispatcher asks a function of this module
for arguments with an implementation of their own. The answer is nothing, and the library runs without any frame
of this package on the stack, so that tracebacks and warnings are those of the plain program; or it is a result that
the helper process has computed.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy._core._multiarray_umath import _ArrayFunctionDispatcher  # type: ignore[import-not-found]

from ..runtime.function_durations import TrialAccount
from .call_case import CallCase, key_of
from .helper_client import HelperError
from .operators import OPERATORS
from .variants import Variant, variants_of

if TYPE_CHECKING:
    from .session import Session

#: Cases that are remembered for each function.
_MAX_CASES = 4_096
#: A file name that `warnings` takes for a part of the import system, whose frames it does not count.
_UNCOUNTED = "<hybrid_scheduler: like importlib._bootstrap>"
#: Calls without another thought after one that failed, and counted at most for the start of a helper.
_REUSES = 1_000
_NOTHING: tuple[()] = ()
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _uncounted(function: _Function) -> _Function:
    """Return a function whose frames warnings do not count, so that they name the program's line."""
    code: CodeType = function.__code__
    function.__code__ = code.replace(co_filename=_UNCOUNTED)
    return function


class _Result:
    """Result that NumPy's dispatcher returns as it is."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Return the result."""
        return self._value


class InterceptedFunction:
    """A library function, its variant and what is known of its calls.

    Parameters
    ----------
    variant : Variant
        The GPU variant.
    library : callable
        The library function.
    session : Session
        What all functions share.
    """

    def __init__(self, variant: Variant, library: Callable[..., Any], session: Session) -> None:
        self.variant = variant
        self.library = library
        self.key = f"{variant.name}:{np.__version__}"
        #: Seconds of all calls that were measured, and those that trials were expected to lose.
        self.account = TrialAccount(every=1)
        self.cases: dict[tuple[Any, ...], CallCase] = {}
        self._session = session

    def consider(self) -> Callable[..., Any]:
        """Return the function that NumPy's dispatcher asks before each call."""
        cases = self.cases
        attend = self._attend
        least = self.variant.least
        first = self.variant.arrays.start
        ndarray = np.ndarray

        @_uncounted
        def consider(*args: Any, **kwargs: Any) -> Any:
            try:
                array = args[first]
                if type(array) is not ndarray or array.size < least:
                    return _NOTHING
                case = cases.get(key := key_of(args, kwargs))
                if case is not None and case.uses > 0:
                    case.uses -= 1
                    case.on_cpu += 1
                    return _NOTHING
            except Exception:  # no array, or an argument that cannot be compared
                return _NOTHING
            return attend(key, case, args, kwargs)

        return consider

    @_uncounted
    def _attend(self, key: tuple[Any, ...], case: CallCase | None, args: Any, kwargs: Any) -> Any:
        """Choose a device for a call, and return the result if it was computed here."""
        session = self._session
        if session.is_idle or getattr(session.local, "inside", False):
            return _NOTHING
        session.local.inside = True  # what the library calls meanwhile belongs to this call
        try:
            if case is None:
                case = self._new_case(key, args, kwargs)
            if not case.outputs:
                case.uses = sys.maxsize
                return _NOTHING
            return self._run(session, case, args, kwargs)
        except Exception as error:  # an error of this package must not end the program
            session.fail(error)
            return _NOTHING
        finally:
            session.local.inside = False

    def _new_case(self, key: tuple[Any, ...], args: Any, kwargs: Any) -> CallCase:
        if len(self.cases) >= _MAX_CASES:
            self.cases.clear()
        try:
            case = CallCase(self.variant, args, kwargs)
            case.read_form(self.variant, self.library, args, kwargs)
        except Exception:  # arguments that the library or the variant does not take
            case = CallCase()
        self.cases[key] = case
        return case

    @_uncounted
    def _run(self, session: Session, case: CallCase, args: Any, kwargs: Any) -> Any:
        choice = session.choice.choose(self, case, session.find_helper())
        lost = 0.0
        if choice.gpu and np.geterr()["under"] == "ignore" and session.lock.acquire(blocking=False):
            first = self.variant.name not in session.loaded
            session.loaded.add(self.variant.name)
            began = time.perf_counter()
            try:
                result = session.client.call(self.variant.name, case, args, kwargs, choice.expected)
            except HelperError:
                result = None
            finally:
                session.lock.release()
            lost = time.perf_counter() - began
            if result is not None:
                case.on_gpu += 1
                case.saved += (choice.expected or lost) - lost
                session.choice.learn(self, case, lost, gpu=True, first=first)
                return (_Result(result),)
            case.declined += 1
        case.on_cpu += 1
        case.uses = choice.reuses
        if not choice.measured and not lost:
            session.spent += (choice.expected or 0.0) * (1 + min(choice.reuses, _REUSES))
            return _NOTHING
        seconds, result = _measured(self.library, args, kwargs)
        if not seconds:  # an error or a warning, which the library raises again on its own
            case.uses = _REUSES
            return _NOTHING
        session.spent += seconds
        session.choice.learn(self, case, seconds, gpu=False)
        if lost:  # such a call costs the attempt, and the library's run after it
            session.choice.learn(self, case, lost + seconds, gpu=True)
        return (_Result(result),)


@_uncounted
def _measured(library: Callable[..., Any], args: Any, kwargs: Any) -> tuple[float, Any]:
    """Call the library; returns seconds, 0 if it failed, and the result.

    Errors in numbers are raised rather than reported, because NumPy would report them for this line.
    """
    raised: Any = {kind: "ignore" if mode == "ignore" else "raise" for kind, mode in np.geterr().items()}
    began = time.perf_counter()
    try:
        with np.errstate(**raised):
            result = library(*args, **kwargs)
    except Exception:
        return 0.0, None
    return time.perf_counter() - began, result


class Patches:
    """Replaced functions of libraries, which can be put back.

    Parameters
    ----------
    session : Session
        What all functions share.
    names : frozenset of str or None
        Functions to replace; all if None.
    """

    def __init__(self, session: Session, names: frozenset[str] | None) -> None:
        self._session = session
        self._names = names
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self.functions: list[InterceptedFunction] = []

    def apply(self, library: str) -> None:
        """Replace the functions of a library that has been imported."""
        for variant in variants_of(library):
            if self._names is None or variant.name in self._names:
                module, _, name = variant.name.rpartition(".")
                self._replace(sys.modules[module], name, variant)
                if variant.name == "numpy.matmul":
                    self._replace(OPERATORS, name, variant)

    def _replace(self, module: Any, name: str, variant: Variant) -> None:
        original = getattr(module, name, None)
        if callable(original):  # an older version of a library may not have it
            function = InterceptedFunction(variant, original, self._session)
            self.functions.append(function)
            new = _stand_in(original, function.consider())
            setattr(module, name, new)
            self._replaced.append((module, name, original, new))

    def undo(self) -> None:
        """Put everything back that has not been replaced since."""
        for module, name, original, new in reversed(self._replaced):
            if getattr(module, name, None) is new:
                setattr(module, name, original)
        self._replaced.clear()


def _stand_in(original: Any, consider: Callable[..., Any]) -> Any:
    """Return an object that is called instead of a library function, and is like it in all other respects.

    It is equal to the function, so that compilers such as numba find what they know of it, and pickled by its name.
    """
    kind = type(original)
    namespace = {
        "__slots__": ("__weakref__",) if _has_weak_references(original) else (),  # numba asks, too
        "__call__": staticmethod(_ArrayFunctionDispatcher(consider, original)),
        "__class__": property(lambda self: kind),
        "__doc__": original.__doc__,
        "__module__": getattr(original, "__module__", None) or "numpy",
        "__getattr__": lambda self, name: getattr(original, name),
        "__eq__": lambda self, other: other is self or other is original,
        "__hash__": lambda self: hash(original),
        "__reduce__": lambda self: original.__qualname__,
        "__repr__": lambda self: repr(original),
    }
    return type(kind.__name__, (), namespace)()


def _has_weak_references(value: Any) -> bool:
    try:
        weakref.ref(value)
    except TypeError:
        return False
    return True
