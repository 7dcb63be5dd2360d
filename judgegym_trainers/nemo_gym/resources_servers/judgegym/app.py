"""The resources server `judgegym`: NeMo Gym runs this file; the class is JudgeGym's own."""

from nemo_gym.server_utils import is_nemo_gym_fastapi_entrypoint

from judgegym_trainers.nemo_gym.resources_server import JudgeGymResourcesServer

if __name__ == "__main__":
    JudgeGymResourcesServer.run_webserver()
elif is_nemo_gym_fastapi_entrypoint(__file__):
    app = JudgeGymResourcesServer.run_webserver()
