"""The program that spark-submit runs beside ktui's code: `ktui pipeline run`.

spark-submit --py-files ktui.zip ktui_job.py --recordings URI --lake URI
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    try:
        from ktui.cli.main import main
        from ktui.cli.pipeline import run as pipeline_run  # noqa: F401 - loads what the job needs
        from ktui.pipeline.spark import session  # noqa: F401 - the same
    except ModuleNotFoundError as error:
        fix = "pip install click msgspec pandas platformdirs pyarrow pyyaml"
        if error.name == "ktui":
            fix = "give spark-submit --py-files ktui.zip"
        sys.exit(f"ktui: the driver's Python, {sys.executable}, has no {error.name}. Fix: {fix}")
    sys.argv[1:1] = ["pipeline", "run"]
    main()
