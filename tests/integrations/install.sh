#!/usr/bin/env bash
# Installs each trainer's package into an environment of its own under $TRAINER_ENVIRONMENTS, unless it is there.
# OpenRLHF and verl need a GPU's libraries; their clients do not, so that they are installed without what they depend on.
set -uo pipefail
cd "$(dirname "$0")/../.."
place=${TRAINER_ENVIRONMENTS:-.trainers}

torch() { # PYTHON PACKAGE…: the build for CPUs, which is a tenth of the other one's size
    case " ${*:2} " in *" torch=="*) ;; *) return 0 ;; esac
    "$1" -m pip install -qq --retries 0 --index-url https://download.pytorch.org/whl/cpu "torch==2.13.*" 2>/dev/null ||
        "$1" -m pip install -qq "torch==2.13.*"
}

environment() { # NAME PYTHON PACKAGE… [-- PACKAGE WITHOUT DEPENDENCIES]
    local name=$1 python=$2; shift 2
    local packages=() bare=()
    while [ $# -gt 0 ] && [ "$1" != -- ]; do packages+=("$1"); shift; done
    [ $# -eq 0 ] || bare=("${@:2}")
    [ -e "$place/$name/.installed" ] && return
    "$python" -c '' 2>/dev/null || { echo "$name: needs $python, which is not here; its tests are skipped"; return; }
    echo "$name: installing into $place/$name"
    rm -rf "${place:?}/$name"
    "$python" -m venv "$place/$name" &&
        torch "$place/$name/bin/python" "${packages[@]}" &&
        "$place/$name/bin/python" -m pip install -qq "${packages[@]}" &&
        { [ ${#bare[@]} -eq 0 ] || "$place/$name/bin/python" -m pip install -qq --no-deps "${bare[@]}"; } &&
        touch "$place/$name/.installed" || { rm -rf "${place:?}/$name"; echo "$name: cannot be installed; its tests are skipped"; }
}

environment trl python3.11 "torch==2.13.*" trl==1.16.0 aiohttp orjson
environment verl python3.11 "torch==2.13.*" tensordict omegaconf numpy pandas transformers datasets codetiming ray aiohttp orjson pydantic-settings tenacity aiolimiter -- verl==0.9.1
environment openrlhf python3.11 "torch==2.13.*" transformers aiohttp pylatexenc -- openrlhf==0.11.2
environment verifiers python3.11 verifiers==0.4.0
environment nemo_gym python3.12 nemo-gym==0.4.0
environment ray python3.11 "ray[serve]==2.60.*" aiohttp aiolimiter orjson pydantic-settings PyYAML prometheus-client
if [ ! -e "$place/slime" ]; then # its package of this name on PyPI is another project
    git clone -q --depth 1 https://github.com/THUDM/slime "$place/slime" || echo "slime: cannot be cloned; its tests are skipped"
fi
exit 0
